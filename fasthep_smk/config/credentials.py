"""Which credentials a workflow and its site require: ``execution.credentials``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from fasthep_smk.config.layers import Layer
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding

CredentialKind = Literal["x509", "token", "kerberos"]
KINDS: tuple[CredentialKind, ...] = get_args(CredentialKind)


class RequirementData(TypedDict):
    """A requirement as jobs are told of it."""

    kind: CredentialKind
    voms: list[str]
    issuer: str | None


@dataclass(frozen=True)
class Requirement:
    """A credential that jobs need. ``voms`` are organisations, ``issuer`` is of a token.

    ``file`` and ``key`` are where it is asked for.
    """

    kind: CredentialKind
    voms: tuple[str, ...] = ()
    issuer: str | None = None
    file: str = ""
    key: str = ""

    def as_data(self) -> RequirementData:
        """Return what jobs are told of it."""
        return {"kind": self.kind, "voms": list(self.voms), "issuer": self.issuer}

    @classmethod
    def from_data(cls, data: RequirementData) -> Requirement:
        """Return the requirement that :meth:`as_data` has described."""
        return cls(data["kind"], tuple(data.get("voms") or ()), data.get("issuer"))


def requirements_of(layers: Iterable[Layer]) -> tuple[tuple[Requirement, ...], list[Finding]]:
    """Return what layers require together, and what is wrong with that; weakest first.

    What one layer requires, a later one takes back with ``null``.
    """
    required: dict[CredentialKind, Requirement] = {}
    findings: list[Finding] = []
    for layer in layers:
        said = layer.content.get("credentials", {})
        if said is None:
            required.clear()
        named = {kind: {} for kind in said} if isinstance(said, list) else said or {}
        for kind, content in named.items():
            if kind not in KINDS:  # a comment
                continue
            key = layer.key_at(("credentials", kind))
            earlier = required.pop(kind, None)
            if content is not None:
                required[kind] = _requirement(kind, content, earlier, layer.file, key)
            elif earlier is None:  # the writer may have meant to require it
                findings.append(
                    Finding(
                        file=layer.file,
                        key=key,
                        problem="null has no effect, because no earlier setting requires this "
                        "credential",
                        expected=f"'{kind}: {{}}', to require it",
                    )
                )
    return tuple(required[kind] for kind in KINDS if kind in required), findings


def _requirement(
    kind: CredentialKind, said: YamlMapping, earlier: Requirement | None, file: str, key: str
) -> Requirement:
    before = earlier or Requirement(kind)
    voms = said.get("voms", before.voms) or ()
    voms = (voms,) if isinstance(voms, str) else tuple(voms)
    return Requirement(kind, voms, said.get("issuer", before.issuer), file, key)
