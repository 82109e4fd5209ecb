"""A certificate authority of one's own, a certificate for 127.0.0.1 and one for a client."""

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from simulator.kubernetes_api.users import MASTERS

_LIFE: Final = timedelta(days=825)
_LEEWAY: Final = timedelta(days=1)
HOST: Final = "127.0.0.1"
CLIENT_NAME: Final = "certified-admin"


@dataclass(frozen=True)
class Identity:
    """What a server proves itself with, and one client too.

    Attributes:
        authority_pem: The certificate clients trust; client certificates are signed with it.
        certificate_path: The server's certificate.
        key_path: Its private key, readable by its owner alone.
        client_certificate_path: Of an administrator.
        client_key_path: Its private key, readable by its owner alone.
    """

    authority_pem: str
    certificate_path: Path
    key_path: Path
    client_certificate_path: Path
    client_key_path: Path

    def server_context(self) -> ssl.SSLContext:
        """Return what a server wraps its sockets with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate_path, self.key_path)
        return context


class _Authority:
    """Signs certificates; its key lives as long as this object."""

    def __init__(self, now: datetime, host: str) -> None:
        """Make the key and the certificate."""
        self._now = now
        self._places = [_place(host), x509.DNSName("localhost")]
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("gpu-ledger simulated cluster CA")
        public = self._key.public_key()
        self.certificate = (
            self._builder(self._name, public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(is_authority=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def issue(
        self,
        subject: x509.Name,
        purpose: ObjectIdentifier,
        certificate_path: Path,
        key_path: Path,
    ) -> None:
        """Write a new certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        own = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            self._builder(subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectAlternativeName(self._places), critical=False)
            .add_extension(own, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_path.touch(mode=0o600)
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _LEEWAY)
            .not_valid_after(self._now + _LIFE)
        )


def make_identity(folder: Path, *, host: str = HOST, at: datetime | None = None) -> Identity:
    """Make an authority, forget its key, and keep what it signed in a folder.

    Args:
        folder: Where the certificates and their keys go.
        host: The address or name the server is asked by.
        at: Now; certificates count from a day before.
    """
    authority = _Authority(at or datetime.now(UTC), host)
    folder.mkdir(parents=True, exist_ok=True)
    identity = Identity(
        authority_pem=authority.certificate.public_bytes(serialization.Encoding.PEM).decode(),
        certificate_path=folder / "apiserver.crt",
        key_path=folder / "apiserver.key",
        client_certificate_path=folder / "admin.crt",
        client_key_path=folder / "admin.key",
    )
    authority.issue(
        _name("kube-apiserver"),
        ExtendedKeyUsageOID.SERVER_AUTH,
        identity.certificate_path,
        identity.key_path,
    )
    authority.issue(
        _name(CLIENT_NAME, MASTERS),
        ExtendedKeyUsageOID.CLIENT_AUTH,
        identity.client_certificate_path,
        identity.client_key_path,
    )
    return identity


def _place(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(common: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


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
