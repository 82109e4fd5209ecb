"""Access to the server: certificates, kubeconfigs, tokens, and what roles allow which request.

Members of system:masters may do everything. The escalation check and aggregated roles are not here,
and of access reviews only that of a caller's own rights to resources.
Source: https://kubernetes.io/docs/reference/access-authn-authz/{authentication,rbac}/
"""

import base64
import ipaddress
import json
import secrets
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from simulator.kubernetes_api.errors import JSON, StatusError, forbidden
from simulator.kubernetes_api.reading import is_watch
from simulator.kubernetes_api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    Resource,
)
from simulator.kubernetes_api.store import Key, ObjectStore

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
OWN_ACCESS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
"""Every authenticated user may ask what it may do, by system:basic-user."""
_PUBLIC: Final = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_DISCOVERY: Final = ("/api", "/apis", "/openapi")
"""What system:discovery lets every authenticated user read, with all that lies below."""
_GROUPED: Final = 4
"""Parts of "apis/GROUP/VERSION/plural"."""
_INSIDE: Final = 2
"""Where the plural is in "namespaces/NAME/plural"."""
_LIFETIME: Final = timedelta(days=825)
HOST: Final = "127.0.0.1"
CLIENT_NAME: Final = "certified-admin"


@dataclass(frozen=True)
class User:
    """One caller.

    Attributes:
        uid: Of a ServiceAccount; "" for all others.
    """

    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)
    uid: str = ""

    def to_json(self) -> JSON:
        """Return the user as an AdmissionReview carries it."""
        uid = {"uid": self.uid} if self.uid else {}
        return {"username": self.name, "groups": list(self.groups), **uid}


ANONYMOUS: Final = User("system:anonymous", groups=("system:unauthenticated",))
ADMIN: Final = User("simulated-admin", groups=(MASTERS, AUTHENTICATED))


def service_account(namespace: str, name: str, uid: str) -> User:
    """Return the user of a ServiceAccount's tokens."""
    groups = (_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups=groups, uid=uid)


class Tokens:
    """The bearer tokens and their users.

    Args:
        administrators: Token to user name; these users may do everything.
    """

    def __init__(self, administrators: Mapping[str, str]) -> None:
        """Keep the tokens."""
        self._users = {
            token: User(name, groups=(MASTERS, AUTHENTICATED))
            for token, name in administrators.items()
        }

    def issue(self, user: User) -> str:
        """Return a new token for a user."""
        token = secrets.token_urlsafe(32)
        self._users[token] = user
        return token

    def user_of(self, authorization: str) -> User:
        """Return the user of an Authorization header."""
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        if scheme != "Bearer" or token not in self._users:
            raise StatusError(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")
        return self._users[token]


@dataclass(frozen=True)
class RequestInfo:
    """A request as an authorizer sees it, before it is known whether the path is served.

    Attributes:
        plural: "pods"; "" for a path that names no resource.
        version: Of the API group.
    """

    verb: str
    path: str
    query: Mapping[str, str]
    group: str = ""
    version: str = ""
    plural: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def resource(self) -> str:
        """Return "pods", or "pods/status"."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural


@dataclass(frozen=True)
class Write:
    """One write: the caller, the object, and how it is written.

    Attributes:
        key: Of the object; its name is "" for one that is to be created.
        manager: The field manager, for `managedFields`.
        subresource: "" for the object itself.
        user: The caller, for webhooks.
        warnings: Added by webhooks, and sent as headers of the response.
    """

    store: ObjectStore
    resource: Resource
    key: Key
    manager: str
    subresource: str = ""
    is_dry_run: bool = False
    is_forced: bool = False
    user: User = ADMIN
    warnings: list[str] = field(default_factory=list)

    def read(self) -> JSON:
        """Return the object, or refuse with 404."""
        return self.store.read(self.resource, self.key)


def parse_request(method: str, target: str) -> RequestInfo:
    """Return what a method and a target ask for."""
    split = urlsplit(target)
    values = parse_qs(split.query, keep_blank_values=True)
    query = {key: found[0] for key, found in values.items()}
    group, version, parts = _split_path(split.path)
    if not parts:
        return RequestInfo(method.lower(), split.path, query)
    namespace = parts[1] if parts[0] == NAMESPACES.plural and len(parts) > 1 else ""
    if namespace and len(parts) > _INSIDE and parts[_INSIDE] != "status":
        parts = parts[_INSIDE:]
    plural, name, *subresource = [*parts, "", ""]
    return RequestInfo(
        verb=_verb(method, name, query),
        path=split.path,
        query=query,
        group=group,
        version=version,
        plural=plural,
        subresource="/".join(filter(None, subresource)),
        namespace=namespace,
        name=name,
    )


def refuse_without_right(store: ObjectStore, user: User, info: RequestInfo) -> None:
    """Refuse what no role of a user allows."""
    if _is_open(user, info) or has_right(store, user, info):
        return
    if not info.plural:
        raise forbidden("", "", f'User "{user.name}" cannot {info.verb} path "{info.path}"')
    qualified = f"{info.plural}.{info.group}" if info.group else info.plural
    where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
    why = (
        f'User "{user.name}" cannot {info.verb} resource "{info.resource}" in API group'
        f' "{info.group}" {where}'
    )
    raise forbidden(qualified, info.name, why)


def has_right(store: ObjectStore, user: User, info: RequestInfo) -> bool:
    """Whether a role of a user allows a request to a resource."""
    if MASTERS in user.groups:
        return True
    return bool(info.plural) and any(_allows(rule, info) for rule in _rules(store, user, info))


@dataclass(frozen=True)
class ServerCertificates:
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


def make_identity(folder: Path, *, host: str = HOST) -> ServerCertificates:
    """Make an authority, and keep what it signed in a folder, but not its key.

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
    names = x509.SubjectAlternativeName([_address(host), x509.DNSName("localhost")])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    server = (folder / "apiserver.crt", folder / "apiserver.key")
    client = (folder / "admin.crt", folder / "admin.key")
    for (certificate_path, key_path), common, usage in (
        (server, "kube-apiserver", ExtendedKeyUsageOID.SERVER_AUTH),
        (client, CLIENT_NAME, ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        own = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(common), name, own)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(names, critical=False)
            .add_extension(issuer, critical=False)
            .sign(key, hashes.SHA256())
        )
        certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_path.touch(mode=0o600)
        plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        key_path.write_bytes(own.private_bytes(serialization.Encoding.PEM, *plain))
    pem = authority.public_bytes(serialization.Encoding.PEM).decode()
    return ServerCertificates(pem, *server, *client)


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


def _split_path(path: str) -> tuple[str, str, list[str]]:
    """Return the group and the version of a path and what follows; nothing for other paths."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[:2] == ["api", "v1"]:
        return "", "v1", parts[2:]
    if parts[0] == "apis" and len(parts) >= _GROUPED:
        return parts[1], parts[2], parts[3:]
    return "", "", []


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    if method == "GET":
        return "get" if name else "watch" if is_watch(query) else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return {"POST": "create", "PUT": "update"}.get(method, method.lower())


def _is_open(user: User, info: RequestInfo) -> bool:
    if info.path == OWN_ACCESS and info.verb == "create":
        return AUTHENTICATED in user.groups
    if info.verb != "get" or info.plural:
        return False
    is_below = any(info.path == root or info.path.startswith(f"{root}/") for root in _DISCOVERY)
    return info.path in _PUBLIC or (AUTHENTICATED in user.groups and is_below)


def _rules(store: ObjectStore, user: User, info: RequestInfo) -> Iterator[JSON]:
    bindings = store.items(CLUSTER_ROLE_BINDINGS)
    if info.namespace:
        bindings += store.items(ROLE_BINDINGS, info.namespace)
    for (namespace, _), binding in bindings:
        if any(_is_subject(one, user, namespace) for one in binding.get("subjects") or []):
            reference = binding["roleRef"]
            is_global = reference["kind"] == CLUSTER_ROLES.kind
            resource, home = (CLUSTER_ROLES, "") if is_global else (ROLES, namespace)
            role = store.get(resource, (home, reference["name"])) or {}
            yield from role.get("rules") or []


def _is_subject(subject: JSON, user: User, namespace: str) -> bool:
    name = subject["name"]
    if subject["kind"] == "Group":
        return name in user.groups
    if subject["kind"] == "ServiceAccount":
        name = f"system:serviceaccount:{subject.get('namespace', namespace)}:{name}"
    return bool(user.name == name)


def _allows(rule: JSON, info: RequestInfo) -> bool:
    names = rule.get("resourceNames")
    return (
        bool({"*", info.verb} & {*rule.get("verbs", [])})
        and bool({"*", info.group} & {*rule.get("apiGroups", [])})
        and bool({"*", info.resource} & {*rule.get("resources", [])})
        and (not names or info.name in names)
    )


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
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _address(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
