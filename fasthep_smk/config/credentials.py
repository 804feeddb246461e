"""Which credentials a workflow and its site require: ``execution.credentials``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from fasthep_smk.config.layers import Layer, merge
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


def _of_credentials(layer: Layer) -> Layer:
    """Return what a layer says of credentials; a list is short for a mapping."""
    if "credentials" not in layer.content:
        return Layer(layer.file, layer.key, {})
    required = layer.content["credentials"]
    content = {name: {} for name in required} if isinstance(required, list) else required
    return Layer(layer.file, layer.key, {"credentials": content})


def requirements_of(layers: Iterable[Layer]) -> tuple[tuple[Requirement, ...], list[Finding]]:
    """Return what layers require together, and what is wrong with that; weakest first.

    What one layer requires, a later one takes back with ``null``.
    """
    layers = list(map(_of_credentials, layers))
    findings = list(_in_vain(layers))
    values = merge(layers).get("credentials") or {}
    required = tuple(_requirement(kind, values[kind], layers) for kind in KINDS if kind in values)
    return required, findings


def _in_vain(layers: list[Layer]) -> Iterator[Finding]:
    """Yield names without a value: YAML's null, by which the writer may have meant to require."""
    named: set[str] = set()
    for layer in layers:
        requirements = layer.content.get("credentials") or {}
        for name, content in requirements.items():
            if content is None and name not in named:
                yield Finding(
                    file=layer.file,
                    key=layer.key_at(("credentials", name)),
                    problem="null has no effect, because no earlier setting requires this "
                    "credential",
                    expected=f"'{name}: {{}}', to require it",
                )
        named |= requirements.keys()


def _requirement(kind: CredentialKind, content: YamlMapping, layers: list[Layer]) -> Requirement:
    layer = [layer for layer in layers if kind in (layer.content.get("credentials") or {})][-1]
    voms = content.get("voms") or ()
    return Requirement(
        kind,
        voms=(voms,) if isinstance(voms, str) else tuple(voms),
        issuer=content.get("issuer"),
        file=layer.file,
        key=layer.key_at(("credentials", kind)),
    )
