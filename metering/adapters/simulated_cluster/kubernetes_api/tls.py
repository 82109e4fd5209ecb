"""A certificate authority of one's own, and a certificate for 127.0.0.1."""

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE: Final = timedelta(days=825)
_LEEWAY: Final = timedelta(days=1)
HOST: Final = "127.0.0.1"


@dataclass(frozen=True)
class Identity:
    """What a server proves itself with.

    Attributes:
        authority_pem: The certificate clients trust.
        certificate_path: The server's certificate.
        key_path: Its private key, readable by its owner alone.
    """

    authority_pem: str
    certificate_path: Path
    key_path: Path

    def server_context(self) -> ssl.SSLContext:
        """Return what a server wraps its sockets with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate_path, self.key_path)
        return context


def make_identity(folder: Path, *, at: datetime | None = None) -> Identity:
    """Make an authority, forget its key, and keep one server certificate in a folder.

    Args:
        folder: Where the certificate and its key go.
        at: Now; certificates count from a day before.
    """
    now = at or datetime.now(UTC)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("gpu-ledger simulated cluster CA")
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_authority=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    server_key = ec.generate_private_key(ec.SECP256R1())
    server = (
        _builder(_name("kube-apiserver"), authority_name, server_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.IPAddress(ipaddress.ip_address(HOST)), x509.DNSName("localhost")]
            ),
            critical=False,
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    folder.mkdir(parents=True, exist_ok=True)
    identity = Identity(
        authority_pem=authority.public_bytes(serialization.Encoding.PEM).decode(),
        certificate_path=folder / "apiserver.crt",
        key_path=folder / "apiserver.key",
    )
    identity.certificate_path.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    identity.key_path.touch(mode=0o600)
    identity.key_path.write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return identity


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LEEWAY)
        .not_valid_after(now + _LIFE)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
