"""What a cluster's description must fulfil before anything is asked of it."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from tenants.domain.errors import FieldProblem
from tenants.domain.hours import is_whole_hour
from tenants.domain.secret_references import IN_CLUSTER

ALIASES_MAX: Final = 16
"""More names for one thing than any exporter has had; keeps queries short."""
RESOURCES_MAX: Final = 64
CONTROLLERS_MAX: Final = 100
CONTROLLER_LENGTH_MAX: Final = 253
_SERIES_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_RESOURCE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SCOPE = re.compile(r"[A-Za-z0-9!_.*'()|-]{1,256}", re.ASCII)
_POD_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?")


def alias_problems(field: str, aliases: object) -> tuple[FieldProblem, ...]:
    """Return what is wrong with a map from a name of ours to a site's names, best first."""
    if not isinstance(aliases, Mapping):
        return (FieldProblem(field, "not_a_map", "Map each name to a list of names."),)
    return tuple(
        FieldProblem(
            f"{field}.{name}",
            "not_series_names",
            f"List 1 to {ALIASES_MAX} Prometheus names: letters, digits and underscores.",
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
    """Return the problem of an address under another scheme than those spoken there."""
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

    Without a watch nobody would see admitted pods end, and their units would never come free.
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
            'Use a name the API server tells, such as "system:serviceaccount:ns:name", once.',
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
