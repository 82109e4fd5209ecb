"""What a cluster's description and the references to its secrets must fulfil."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tenants.domain.errors import FieldProblem
from tenants.domain.hours import is_whole_hour

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

    Kubernetes mounts a secret's files below `..data` too, a symbolic link to a folder that is
    renamed at each rotation.
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


ALIASES_MAX: Final = 16
"""More names for one thing than any exporter has had; keeps queries short."""
ALIASED_MAX: Final = 64
"""Of ours there are not half as many."""
RESOURCES_MAX: Final = 64
CONTROLLERS_MAX: Final = 100
CONTROLLER_LENGTH_MAX: Final = 253
SERIES_NAME_LENGTH_MAX: Final = 200
_SERIES_NAME = re.compile(rf"[a-zA-Z_:][a-zA-Z0-9_:]{{0,{SERIES_NAME_LENGTH_MAX - 1}}}")
_RESOURCE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SCOPE = re.compile(r"[A-Za-z0-9!_.*'()|-]{1,256}", re.ASCII)
_POD_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")


def alias_problems(field: str, aliases: object) -> tuple[FieldProblem, ...]:
    """Return what is wrong with a map from a name of ours to a site's names, best first."""
    if not isinstance(aliases, Mapping):
        return (FieldProblem(field, "not_a_map", "Map each name to a list of names."),)
    if len(aliases) > ALIASED_MAX:
        return (FieldProblem(field, "too_many", f"Map at most {ALIASED_MAX} names."),)
    return tuple(
        FieldProblem(
            f"{field}.{str(name)[:SERIES_NAME_LENGTH_MAX]}",
            "not_series_names",
            f"List 1 to {ALIASES_MAX} Prometheus names: letters, digits and underscores, at most"
            f" {SERIES_NAME_LENGTH_MAX} each.",
        )
        for name, others in aliases.items()
        if not _are_series_names([name]) or not _are_series_names(others)
    )


def resource_problems(resources: object) -> tuple[FieldProblem, ...]:
    """Return what is wrong with a list of GPU resource names, such as "nvidia.com/gpu"."""
    if isinstance(resources, str) or not isinstance(resources, Sequence):
        return (FieldProblem("offered_resources", "not_a_list", "List resource names."),)
    if len(resources) > RESOURCES_MAX:
        message = f"List at most {RESOURCES_MAX} resource names."
        return (FieldProblem("offered_resources", "too_many", message),)
    return tuple(
        FieldProblem(
            f"offered_resources.{position}",
            "not_a_resource_name",
            'Use an extended resource name, such as "nvidia.com/gpu", once.',
        )
        for position, name in enumerate(resources)
        if not isinstance(name, str)
        or not _RESOURCE.fullmatch(name)
        or name in resources[:position]
    )


def hour_problems(field: str, moment: datetime) -> tuple[FieldProblem, ...]:
    """Return the problem of a time that is not the start of a UTC hour."""
    if moment.tzinfo is not None and is_whole_hour(moment):
        return ()
    return (FieldProblem(field, "not_a_whole_hour", "Use the start of a UTC hour."),)


def metered_problems(begin: datetime, end: datetime | None) -> tuple[FieldProblem, ...]:
    """Return the problems of the hours that are metered: whole ones, and at least one."""
    problems = hour_problems("metered_from", begin)
    if end is None:
        return problems
    problems += hour_problems("metered_until", end)
    if problems or end > begin:
        return problems
    return (FieldProblem("metered_until", "not_after_begin", "Use an hour after metered_from."),)


def later_problems(before: datetime, after: datetime) -> tuple[FieldProblem, ...]:
    """Return the problem of a first metered hour that is later than it was."""
    if after.tzinfo is None or after <= before:
        return ()
    message = f"Hours are metered from {before:%Y-%m-%dT%H:%MZ} on; use an earlier hour."
    return (FieldProblem("metered_from", "later_than_before", message),)


def selector_problems(label: str, value: str) -> tuple[FieldProblem, ...]:
    """Return the problem of half a selector: it takes a label and a value, or neither."""
    if bool(label) == bool(value):
        return ()
    missing = "selector_value" if label else "selector_label"
    return (FieldProblem(missing, "half_a_selector", "Give both label and value, or neither."),)


def scope_problems(scope: str) -> tuple[FieldProblem, ...]:
    """Return the problem of a tenant of Mimir or Thanos that cannot stand in a header."""
    if not scope or _SCOPE.fullmatch(scope):
        return ()
    message = "Use letters, digits and !-_.*'() only; | between several."
    return (FieldProblem("prometheus_scope_org_id", "not_a_tenant", message),)


def user_label_problems(label: str) -> tuple[FieldProblem, ...]:
    """Return the problem of a pod label that Kubernetes or Prometheus could not carry."""
    if not label or _POD_LABEL.fullmatch(label):
        return ()
    message = "Use the name of a pod label: letters, digits, dots, dashes and underscores."
    return (FieldProblem("user_label", "not_a_label", message),)


def url_problems(field: str, url: str, *, schemes: Sequence[str]) -> tuple[FieldProblem, ...]:
    """Return the problem of a URL with an unsupported scheme."""
    if not url or url.split("://", 1)[0] in schemes:
        return ()
    message = f"Use an address that begins with {' or '.join(f'{s}://' for s in schemes)}."
    return (FieldProblem(field, "wrong_scheme", message),)


def watch_problems(
    *, is_watched: bool, kubernetes_url: str, credential_reference: str
) -> tuple[FieldProblem, ...]:
    """Return the problem of a cluster that is to be watched and cannot be reached.

    A kubeconfig and the service account of the pod we run in know the address themselves.
    """
    knows_address = credential_reference.startswith("kubeconfig:")
    if not is_watched or kubernetes_url or knows_address or credential_reference == IN_CLUSTER:
        return ()
    message = (
        "To watch a cluster give its kubernetes_url, or a credential_reference that knows it:"
        " in-cluster or kubeconfig:<path>."
    )
    return (FieldProblem("is_watched", "not_reachable", message),)


def admission_problems(
    *, admission_mode: str, is_watched: bool, trusted_controllers: object
) -> tuple[FieldProblem, ...]:
    """Return what is wrong with how a cluster admits pods.

    Without a watch the end of admitted pods is not observed and their units are never released.
    """
    problems = _controller_problems(trusted_controllers)
    if admission_mode == "off" or is_watched:
        return problems
    message = "Only a watched cluster can admit pods; set is_watched first."
    return (FieldProblem("admission_mode", "not_watched", message), *problems)


def _controller_problems(controllers: object) -> tuple[FieldProblem, ...]:
    if isinstance(controllers, str) or not isinstance(controllers, Sequence):
        return (FieldProblem("trusted_controllers", "not_a_list", "List user names."),)
    if len(controllers) > CONTROLLERS_MAX:
        message = f"List at most {CONTROLLERS_MAX} user names."
        return (FieldProblem("trusted_controllers", "too_many", message),)
    return tuple(
        FieldProblem(
            f"trusted_controllers.{position}",
            "not_a_user_name",
            'Use the name of the API server, such as "system:serviceaccount:ns:name", once.',
        )
        for position, name in enumerate(controllers)
        if not isinstance(name, str)
        or not name.strip()
        or len(name) > CONTROLLER_LENGTH_MAX
        or name in controllers[:position]
    )


def _are_series_names(names: object) -> bool:
    return (
        isinstance(names, Sequence)
        and not isinstance(names, str)
        and 1 <= len(names) <= ALIASES_MAX
        and all(isinstance(name, str) and _SERIES_NAME.fullmatch(name) for name in names)
    )
