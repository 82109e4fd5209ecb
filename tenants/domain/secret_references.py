"""References to a cluster's secrets: what one may look like before anything is read."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from tenants.domain.errors import FieldProblem

VARIABLE_PREFIX: Final = "CLUSTER_SECRET_"
"""Only variables of this prefix are read for clusters: none of the service's own has it."""
IN_CLUSTER: Final = "in-cluster"
AUDITED_PROBLEMS: Final = frozenset(
    {
        "not_a_reference",
        "variable_forbidden",
        "path_forbidden",
        "address_forbidden",
        "secret_not_plain",
        "secret_of_another_host",
    }
)
"""Codes of problems that may be an attempt to read a secret, or to send it elsewhere."""
_KINDS: Final = {
    "credential_reference": ("env", "file", "kubeconfig"),
    "prometheus_credential_reference": ("env", "file", "basic-env", "basic-file"),
}
REFERENCE_FIELDS: Final = tuple(_KINDS)
_VARIABLE: Final = re.compile(rf"{VARIABLE_PREFIX}[A-Za-z0-9_]+", re.ASCII)
_PATH: Final = re.compile(r"[!-~]+", re.ASCII)
_BASIC: Final = "basic-"
_URL: Final = re.compile(
    r"(https?)://([a-z0-9_.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::([0-9]{0,5}))?(?:[/?#][^\\]*)?",
    re.ASCII | re.IGNORECASE,
)
"""One that every client reads alike: without a user part and without a backslash."""
_PORTS: Final = {"http": "80", "https": "443"}
PORT_MAX: Final = 65_535


@dataclass(frozen=True)
class NamedSecret:
    """A file or variable that a reference leads to, itself or through a kubeconfig.

    Attributes:
        keys: One for the name, and one for the file behind every symbolic link.
        label: What it is called in a refusal.
        pin: Where an operator writes the origins that it is for.
        origins: What is written there; None without a pin.
        url: Where a kubeconfig has it sent; "" for the cluster's own URL.
        is_public: A certificate, which several kubeconfigs may name.
    """

    keys: tuple[str, ...]
    label: str
    pin: str
    origins: frozenset[str] | None = None
    url: str = ""
    is_public: bool = False


def reference_problems(field: str, reference: str) -> tuple[FieldProblem, ...]:
    """Return the problem of a reference that names no secret of a cluster, or is the secret.

    Args:
        field: "credential_reference" or "prometheus_credential_reference".
        reference: As stored; "" for none.
    """
    kinds = _KINDS[field]
    is_own_account = field == "credential_reference" and reference == IN_CLUSTER
    if not reference or is_own_account:
        return ()
    kind, _, name = reference.partition(":")
    if kind not in kinds:
        known = ", ".join(f"{one}:<{'NAME' if one.endswith('env') else 'path'}>" for one in kinds)
        own = f" or {IN_CLUSTER}" if field == "credential_reference" else ""
        return (FieldProblem(field, "not_a_reference", f"Use {known}{own}."),)
    if kind.endswith("env"):
        if _VARIABLE.fullmatch(name):
            return ()
        example = f"{kind}:{VARIABLE_PREFIX}HOPPER"
        message = f"Name a variable that begins with {VARIABLE_PREFIX}, as in {example}."
        return (FieldProblem(field, "variable_forbidden", message),)
    problem = relative_path_problem(name)
    if not problem:
        return ()
    remedy = f"Name a file relative to CLUSTER_SECRETS_DIR, as in {kind}:hopper/token."
    return (FieldProblem(field, "path_forbidden", f"{problem} {remedy}"),)


def origin_of(url: str) -> str:
    """Return where a URL sends to, as `https://host:443`; "" where two clients may read it apart.

    Source: RFC 6454, the web origin concept; the port is always written.
    """
    match = _URL.fullmatch(url)
    if match is None:
        return ""
    scheme, host = match[1].lower(), match[2].lower()
    port = int(match[3] or _PORTS[scheme])
    return f"{scheme}://{host}:{port}" if port <= PORT_MAX else ""


def read_pin(text: str) -> frozenset[str]:
    """Return the origins of an operator's pin, separated by white space; others are left out.

    What has no scheme is for https, and what has no port for that of its scheme.
    """
    urls = (word if "://" in word else f"https://{word}" for word in text.split())
    return frozenset(filter(None, map(origin_of, urls)))


def split_reference(reference: str) -> tuple[str, str]:
    """Return the kind of a secret, "env" or "file", and its name, without how it is sent.

    The kind is "" where the secret, or the pod, knows its own address.
    """
    kind, _, name = reference.partition(":")
    kind = kind.removeprefix(_BASIC)
    return (kind, name) if kind in {"env", "file"} else ("", "")


def variable_key(name: str) -> str:
    """Return the key of a secret in a variable."""
    return f"env:{name}"


def file_key(path: str) -> str:
    """Return one key for all spellings of a path below the directory of secrets.

    Kubernetes mounts a secret's files below `..data` too, a link to a folder whose name changes
    with each rotation.
    """
    parts = (part for part in path.split("/") if part not in {"", "."} and part[:2] != "..")
    return f"file:{'/'.join(parts)}"


def secrets_by_name(reference: str) -> tuple[NamedSecret, ...]:
    """Return the secret of a reference as far as its name shows it; none for a kubeconfig."""
    kind, name = split_reference(reference)
    if not kind:
        return ()
    key = variable_key(name) if kind == "env" else file_key(name)
    return (NamedSecret(keys=(key,), label=name, pin=pin_label(kind, name)),)


def pin_label(kind: str, name: str) -> str:
    """Return where an operator writes the pin of a secret."""
    return f"the variable {name}_HOST" if kind == "env" else f"a file {name}.host"


def origin_problems(
    field: str, secret: NamedSecret, *, url: str, allowed: Collection[str]
) -> tuple[FieldProblem, ...]:
    """Return the problem of a secret that a URL of another origin would get.

    Args:
        field: "credential_reference" or "prometheus_credential_reference".
        secret: What the reference names.
        url: Where the secret would be sent.
        allowed: The origins that may get it.
    """
    origin = origin_of(url)
    if origin and origin in allowed:
        return ()
    remedy = (
        f"Correct the URL, or have an operator write {origin} into {secret.pin}."
        if origin
        else "Write the URL as https://host:port, without a user and without a backslash."
    )
    message = f"The secret {secret.label} is for another host, port or scheme than {url}. {remedy}"
    return (FieldProblem(field, "secret_of_another_host", message),)


def relative_path_problem(path: str) -> str:
    """Return what is wrong with a path below the directory of secrets; "" when nothing is."""
    if path.startswith("/"):
        return "An absolute path is not read."
    if not _PATH.fullmatch(path) or ".." in path.split("/"):
        return "A path without .. and without spaces is needed."
    return ""
