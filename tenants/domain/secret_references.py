"""References to a cluster's secrets: what one may look like before anything is read."""

import re
from collections.abc import Collection
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
    r"https?://(?:([a-z0-9_.-]+)|\[([0-9a-f:.]+)\])(?::[0-9]*)?(?:[/?#][^\\]*)?",
    re.ASCII | re.IGNORECASE,
)
"""One that every client reads alike: without a user part and without a backslash."""


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


def host_of(url: str) -> str:
    """Return the host of a URL in small letters; "" where two clients may read it differently."""
    match = _URL.fullmatch(url)
    return "" if match is None else (match[1] or match[2]).lower()


def split_reference(reference: str) -> tuple[str, str]:
    """Return the kind of a secret, "env" or "file", and its name, without how it is sent.

    The kind is "" where the secret, or the pod, knows its own address.
    """
    kind, _, name = reference.partition(":")
    kind = kind.removeprefix(_BASIC)
    return (kind, name) if kind in {"env", "file"} else ("", "")


def secret_key(reference: str) -> str:
    """Return one name for all ways to refer to a secret; "" where it knows its own address.

    Kubernetes mounts a secret's files below `..data` too, which is a link.
    """
    kind, name = split_reference(reference)
    if kind != "file":
        return f"{kind}:{name}" if kind else ""
    parts = (part for part in name.split("/") if part not in {"", "."} and part[:2] != "..")
    return f"file:{'/'.join(parts)}"


def host_problems(
    field: str, reference: str, *, url: str, allowed: Collection[str]
) -> tuple[FieldProblem, ...]:
    """Return the problem of a secret that a URL of another host would get.

    Args:
        field: "credential_reference" or "prometheus_credential_reference".
        reference: As stored, of a secret that does not know its own address.
        url: Where the secret would be sent.
        allowed: The hosts that may get it.
    """
    host = host_of(url)
    if host and host in allowed:
        return ()
    kind, name = split_reference(reference)
    pin = f"the variable {name}_HOST" if kind == "env" else f"a file {name}.host beside the secret"
    message = f"This secret is for another host than that of {url}. Write that host into {pin}."
    return (FieldProblem(field, "secret_of_another_host", message),)


def relative_path_problem(path: str) -> str:
    """Return what is wrong with a path below the directory of secrets; "" when nothing is."""
    if path.startswith("/"):
        return "An absolute path is not read."
    if not _PATH.fullmatch(path) or ".." in path.split("/"):
        return "A path without .. and without spaces is needed."
    return ""
