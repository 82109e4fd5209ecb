"""References to a cluster's secrets: what one may look like before anything is read."""

import re
from typing import Final

from tenants.domain.errors import FieldProblem

VARIABLE_PREFIX: Final = "CLUSTER_SECRET_"
"""Only variables of this prefix are read for clusters: none of the service's own has it."""
IN_CLUSTER: Final = "in-cluster"
AUDITED_PROBLEMS: Final = frozenset(
    {"not_a_reference", "variable_forbidden", "path_forbidden", "address_forbidden"}
)
"""Codes of problems that may be an attempt to read a secret, or to send it elsewhere."""
_KINDS: Final = {
    "credential_reference": ("env", "file", "kubeconfig"),
    "prometheus_credential_reference": ("env", "file", "basic-env", "basic-file"),
}
_VARIABLE: Final = re.compile(rf"{VARIABLE_PREFIX}[A-Za-z0-9_]+", re.ASCII)
_PATH: Final = re.compile(r"[!-~]+", re.ASCII)


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


def relative_path_problem(path: str) -> str:
    """Return what is wrong with a path below the directory of secrets; "" when nothing is."""
    if path.startswith("/"):
        return "An absolute path is not read."
    if not _PATH.fullmatch(path) or ".." in path.split("/"):
        return "A path without .. and without spaces is needed."
    return ""
