"""Certificates of an authority made for one server, and kubeconfigs that trust it."""

import base64
import ipaddress
import json
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME: Final = timedelta(days=825)
_LEEWAY: Final = timedelta(days=1)
HOST: Final = "127.0.0.1"
CLIENT_NAME: Final = "certified-admin"


@dataclass(frozen=True)
class Identity:
    """The certificates of a server and of one client.

    Attributes:
        authority_pem: The certificate that signed both.
        certificate_path: The server's certificate.
        key_path: Its private key, readable by its owner alone.
        client_certificate_path: The client's certificate.
        client_key_path: Its private key, readable by its owner alone.
    """

    authority_pem: str
    certificate_path: Path
    key_path: Path
    client_certificate_path: Path
    client_key_path: Path

    def server_context(self) -> ssl.SSLContext:
        """Return the TLS context of a server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate_path, self.key_path)
        return context


def make_identity(folder: Path, *, host: str = HOST) -> Identity:
    """Make an authority, keep what it signed in a folder, and forget its key.

    Args:
        folder: Where the certificates and their keys go.
        host: The address or name of the server.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("gpu-ledger simulated cluster CA")
    authority = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    server = (folder / "apiserver.crt", folder / "apiserver.key")
    client = (folder / "admin.crt", folder / "admin.key")
    for (certificate_path, key_path), common, usage in (
        (server, "kube-apiserver", ExtendedKeyUsageOID.SERVER_AUTH),
        (client, CLIENT_NAME, ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        own = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([_address(host), x509.DNSName("localhost")])
        certificate = (
            _builder(_name(common), name, own)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(names, critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()),
                critical=False,
            )
            .sign(key, hashes.SHA256())
        )
        certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_path.touch(mode=0o600)
        key_path.write_bytes(_key_pem(own))
    pem = authority.public_bytes(serialization.Encoding.PEM).decode()
    return Identity(pem, *server, *client)


def write_kubeconfig(
    path: Path, *, url: str, authority_pem: str, token: str, name: str = "simulated"
) -> Path:
    """Write a kubeconfig that its owner alone may read, and return its path.

    It is written as JSON, which is YAML.

    Args:
        path: Where it goes.
        url: Of the server.
        authority_pem: The certificate that signed the server's.
        token: The user's bearer token.
        name: Of its context.
    """
    authority = base64.b64encode(authority_pem.encode()).decode()
    cluster = {"server": url, "certificate-authority-data": authority}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    public, now = key.public_key(), datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LEEWAY)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _address(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
