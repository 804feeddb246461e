"""Credentials that tests make: proxies of an own authority, tokens of an own issuer; and the scan
for what is secret in them."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jwt
import pytest
from asn1crypto import algos, cms, core
from asn1crypto import x509 as plain_x509
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["KEY", "proxy", "scan", "secret_parts", "token", "voms_extension", "write"]

#: Signs tokens.
KEY = "a secret of the tests, long enough for HMAC with SHA-256"
_PROXY_INFO = "1.3.6.1.5.5.7.1.14"
_VOMS = "1.3.6.1.4.1.8005.100.100.5"
_GROUPS = "1.3.6.1.4.1.8005.100.100.4"


def token(seconds: float | None, key: str = KEY, **claims: object) -> str:
    """Return a signed token that lasts for so many seconds; ``None``: for ever."""
    said: dict[str, object] = {"sub": "alice", "iss": "https://issuer.example/", **claims}
    if seconds is not None:
        said["exp"] = time.time() + seconds
    return jwt.encode(said, key, algorithm="HS256")


def write(path: Path, content: str | bytes, mode: int = 0o600) -> Path:
    """Put a credential in its place at once, as tools do that renew one."""
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(content.encode() if isinstance(content, str) else content)
    new.chmod(mode)
    new.replace(path)
    return path


def proxy(
    *hours: float, begin: float = -1, voms: bytes | None = None
) -> tuple[bytes, list[x509.Certificate]]:
    """Return the file of a proxy as RFC 3820 has it, and its certificates.

    ``hours`` are the lifetimes of its certificates, that of the user last: each certificate is
    signed by the next one, which is named so that it is a proxy of that. ``begin`` is that of the
    first one in hours from now. ``voms`` is the content of the extension of VOMS.
    """
    now = datetime.now(UTC)
    names = [[(NameOID.DOMAIN_COMPONENT, "example"), (NameOID.COMMON_NAME, "Alice")]]
    for number in range(1, len(hours)):
        names.append([*names[-1], (NameOID.COMMON_NAME, str(1000 + number))])
    signer_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
    signer = ec.generate_private_key(ec.SECP256R1())
    chain: list[x509.Certificate] = []
    key = signer
    for number, lasts in enumerate(reversed(hours)):
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(oid, text) for oid, text in names[number]])
        first = number == len(hours) - 1
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(signer_name)
            .public_key(key.public_key())
            .serial_number(1000 + number)
            .not_valid_before(now + timedelta(hours=begin if first else -1))
            .not_valid_after(now + timedelta(hours=lasts))
        )
        if number:
            # ProxyCertInfo: the policy language id-ppl-inheritAll.
            policy = bytes.fromhex("300c300a06082b06010505071501")
            info = x509.UnrecognizedExtension(x509.ObjectIdentifier(_PROXY_INFO), policy)
            builder = builder.add_extension(info, critical=True)
        if voms is not None and first:
            extension = x509.UnrecognizedExtension(x509.ObjectIdentifier(_VOMS), voms)
            builder = builder.add_extension(extension, critical=False)
        chain.insert(0, builder.sign(signer, hashes.SHA256()))
        signer, signer_name = key, name
    pem = [one.public_bytes(serialization.Encoding.PEM) for one in chain]
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return b"".join([pem[0], secret, *pem[1:]]), chain


def voms_extension(*groups: str, hours: float = 12) -> bytes:
    """Return the extension of VOMS for groups such as ``/cms/Role=NULL``, as its servers make it.

    An attribute certificate, in a sequence of them, in one more sequence.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    name = plain_x509.Name.build({"common_name": "voms.example"})
    names = plain_x509.GeneralNames([plain_x509.GeneralName("directory_name", name)])
    algorithm = algos.SignedDigestAlgorithm({"algorithm": "sha256_rsa"})
    syntax = cms.IetfAttrSyntax(
        {"values": [cms.IetfAttrValue("octets", text.encode()) for text in groups]}
    )
    attribute = core.Sequence()
    attribute._contents = core.ObjectIdentifier(_GROUPS).dump() + _set(syntax.dump())
    content = cms.AttributeCertificateInfoV2(
        {
            "version": "v2",
            "holder": {"entity_name": names},
            "issuer": cms.AttCertIssuer("v2_form", {"issuer_name": names}),
            "signature": algorithm,
            "serial_number": 7,
            "att_cert_validity_period": {
                "not_before_time": now - timedelta(hours=1),
                "not_after_time": now + timedelta(hours=hours),
            },
            "attributes": cms.AttCertAttributes.load(_sequence(attribute.dump())),
        }
    )
    certificate = cms.AttributeCertificateV2(
        {"ac_info": content, "signature_algorithm": algorithm, "signature": b"not verified"}
    )
    return _sequence(_sequence(certificate.dump()))


def _sequence(*items: bytes) -> bytes:
    return core.Sequence(contents=b"".join(items)).dump()


def _set(*items: bytes) -> bytes:
    return core.Set(contents=b"".join(items)).dump()


def secret_parts(credential: str | bytes) -> list[bytes]:
    """Return what of a token or proxy must be found nowhere, as bytes to look for."""
    content = credential.encode() if isinstance(credential, str) else credential
    if b"PRIVATE KEY" in content:
        key = content.partition(b"PRIVATE KEY-----\n")[2].partition(b"\n-----END")[0]
        return [line for line in key.splitlines() if len(line) > 30]
    _, payload, signature = content.strip().split(b".")
    return [payload, signature]


def scan(folders: Iterable[Path], secrets: Iterable[bytes], *, spared: Iterable[Path] = ()) -> str:
    """Return where any of the secrets stands: in a file, an archive, or a command line.

    ``spared`` are the files in which they are at home. Empty if nothing was found.
    """
    wanted, at_home = list(secrets), {path.resolve() for path in spared}
    assert wanted
    for folder in folders:
        for path in folder.rglob("*"):
            if not path.is_file() or path.resolve() in at_home:
                continue
            for content in _contents(path):
                if any(secret in content for secret in wanted):
                    return str(path)
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            content = process.read_bytes()
        except OSError:
            continue  # it has ended
        if process.parent.name != str(os.getpid()) and any(one in content for one in wanted):
            return str(process)
    return ""


def _contents(path: Path) -> Iterable[bytes]:
    try:
        yield path.read_bytes()
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield from (archive.read(name) for name in archive.namelist())
    except FileNotFoundError:
        return  # it was there a moment ago


def valid_token(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of the token that is looked for from now on, which is valid at first."""
    monkeypatch.delenv("BEARER_TOKEN", raising=False)
    monkeypatch.setenv("BEARER_TOKEN_FILE", str(folder / "token"))
    return write(folder / "token", token(3600))
