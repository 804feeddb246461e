"""The X509 proxy of this user, where Globus has it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.credentials.credential import Credential, Unreadable, read_file

if TYPE_CHECKING:
    from cryptography import x509

VARIABLE = "X509_USER_PROXY"
#: VOMS puts attribute certificates into this extension, and the groups into this attribute.
_VOMS_CERTIFICATES = "1.3.6.1.4.1.8005.100.100.5"
_VOMS_GROUPS = "1.3.6.1.4.1.8005.100.100.4"


def find_proxy() -> Credential | None:
    """Return the proxy that ``X509_USER_PROXY`` names, else ``/tmp/x509up_u<uid>``, if any."""
    path = Path(os.environ.get(VARIABLE) or default_path())
    try:
        content, mode = read_file(path)
        return _described(path, content, mode)
    except FileNotFoundError:
        return None
    except Unreadable as error:
        return Credential("x509", str(path), path, problem=str(error))


def default_path() -> str:
    """Return where a proxy is if it is not given."""
    return f"/tmp/x509up_u{os.getuid()}"


def _described(path: Path, content: bytes, mode: int) -> Credential:
    from cryptography import x509

    try:
        chain = x509.load_pem_x509_certificates(content)
        ends = [certificate.not_valid_after_utc.timestamp() for certificate in chain]
        begins = [certificate.not_valid_before_utc.timestamp() for certificate in chain]
        subject = chain[0].subject.rfc4514_string()
        # A proxy is issued by the person; the issuer of the last certificate says who that is.
        issuer = chain[-1].issuer.rfc4514_string()
        extensions = [blob for certificate in chain for blob in _voms(certificate)]
    except Exception:  # the library has many kinds, and its text might quote the file
        problem = "contains no readable certificate"
        return Credential("x509", str(path), path, problem=problem, mode=mode)
    vos: list[str] = []
    for blob in extensions:
        # What VOMS says is not needed to know that it has said something.
        with contextlib.suppress(Exception):  # whatever the library makes of odd bytes
            for names, begin, end in _attributes(blob):
                vos += names
                begins.append(begin)
                ends.append(end)
    return Credential(
        "x509",
        str(path),
        path,
        subject=subject,
        issuer=issuer,
        begin=max(begins),
        end=min(ends),
        mode=mode,
        attested=bool(extensions),
        vos=tuple(dict.fromkeys(vos)),
    )


def _voms(certificate: x509.Certificate) -> Iterator[bytes]:
    from cryptography import x509

    for extension in certificate.extensions:
        value = extension.value
        is_voms = extension.oid.dotted_string == _VOMS_CERTIFICATES
        if is_voms and isinstance(value, x509.UnrecognizedExtension):
            yield value.value


def _attributes(blob: bytes) -> Iterator[tuple[list[str], float, float]]:
    """Yield the organisations of each attribute certificate, and its begin and end.

    VOMS wraps its sequence of attribute certificates into one more sequence. The groups are names
    such as ``/cms/Role=NULL``, which begin with that of the organisation.
    """
    from asn1crypto import cms, core

    certificates = core.Sequence.load(blob)[0]
    for number in range(len(certificates)):
        content = cms.AttributeCertificateV2.load(certificates[number].dump())["ac_info"]
        period = content["att_cert_validity_period"]
        names: list[str] = []
        for attribute in content["attributes"]:
            if attribute["type"].dotted != _VOMS_GROUPS:
                continue
            for value in attribute["values"]:
                entries = cms.IetfAttrSyntax.load(value.dump())["values"]
                texts = [item.native for item in entries]
                words = [text.decode() if isinstance(text, bytes) else text for text in texts]
                names += [word.split("/")[1] for word in words]
        yield (
            names,
            period["not_before_time"].native.timestamp(),
            period["not_after_time"].native.timestamp(),
        )
