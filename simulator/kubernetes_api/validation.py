"""What makes an object valid.

Source: kubernetes/pkg/apis/core/validation/validation.go, as far as these kinds go.
"""

import copy
import re
from collections.abc import Iterator
from typing import Final

from simulator.kubernetes_api.errors import JSON, invalid
from simulator.kubernetes_api.kinds import (
    FORBIDDEN,
    INVALID,
    REQUIRED,
    Cause,
    change_causes,
    claim_status_causes,
    new_causes,
)
from simulator.kubernetes_api.pod_usage import is_extended
from simulator.kubernetes_api.quantities import parse_quantity
from simulator.kubernetes_api.resources import (
    CLAIMS,
    NAMESPACES,
    PODS,
    QUOTAS,
    RBAC,
    Resource,
)

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_PATH_SEGMENT: Final = re.compile(r"(?!\.{1,2}\Z)[^/%]+")
_QUALIFIED: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII
)
_STANDARD: Final = re.compile(
    r"cpu|memory|ephemeral-storage|pods|services|secrets|configmaps|resourcequotas"
    r"|replicationcontrollers|persistentvolumeclaims|services\.(nodeports|loadbalancers)"
    r"|(requests|limits)\.(cpu|memory|ephemeral-storage)|requests\.storage",
    re.ASCII,
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex"
    " used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_IMMUTABLE_TEXT: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
    " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set"
    " to 1 if it was previously negative)"
)


def check_new(resource: Resource, obj: JSON) -> None:
    """Refuse a new object that is not valid.

    Raises:
        StatusError: 422 with every cause.
    """
    _refuse(resource, obj, [*_name_causes(resource, obj), *_spec_causes(resource, obj)])


def check_change(resource: Resource, before: JSON, after: JSON, subresource: str) -> None:
    """Refuse a change of what cannot change.

    Raises:
        StatusError: 422 with every cause.
    """
    causes: list[Cause] = []
    if subresource:
        causes += claim_status_causes(after) if resource is CLAIMS else ()
        _refuse(resource, after, causes)
        return
    causes += change_causes(resource.plural, before, after)
    if resource is PODS and _fixed(before) != _fixed(after):
        causes.append((FORBIDDEN, f"Forbidden: {_IMMUTABLE_TEXT}", "spec"))
    if resource is QUOTAS:
        causes += _quota_causes(after)
        if before["spec"].get("scopes") != after["spec"].get("scopes"):
            told = after["spec"].get("scopes", [])
            causes.append((INVALID, f"Invalid value: {told}: field is immutable", "spec.scopes"))
    _refuse(resource, after, causes)


def _refuse(resource: Resource, obj: JSON, causes: list[Cause]) -> None:
    if causes:
        raise invalid(resource.qualified_kind, obj["metadata"].get("name", ""), causes)


def _name_causes(resource: Resource, obj: JSON) -> Iterator[Cause]:
    name = obj["metadata"].get("name", "")
    if resource.group == RBAC and _PATH_SEGMENT.fullmatch(name):
        return
    is_label = resource is NAMESPACES
    shape, text = (_LABEL, _LABEL_TEXT) if is_label else (_SUBDOMAIN, _SUBDOMAIN_TEXT)
    if not name:
        yield REQUIRED, "Required value: name or generateName is required", "metadata.name"
    elif shape.fullmatch(name) is None or ".." in name:
        yield INVALID, f'Invalid value: "{name}": {text}', "metadata.name"


def _spec_causes(resource: Resource, obj: JSON) -> Iterator[Cause]:
    if resource is PODS:
        containers = obj["spec"].get("containers") or []
        if not containers:
            yield REQUIRED, "Required value", "spec.containers"
        for place in ("containers", "initContainers"):
            for index, container in enumerate(obj["spec"].get(place) or []):
                yield from _container_causes(container, f"spec.{place}[{index}]")
    elif resource is QUOTAS:
        yield from _quota_causes(obj)
    yield from new_causes(resource.plural, obj)


def _container_causes(container: JSON, field: str) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield REQUIRED, "Required value", f"{field}.name"
    elif _LABEL.fullmatch(name) is None:
        yield INVALID, f'Invalid value: "{name}": {_LABEL_TEXT}', f"{field}.name"
    if not container.get("image"):
        yield REQUIRED, "Required value", f"{field}.image"
    resources = container.get("resources", {})
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for resource, value in amounts.items():
            yield from _amount_causes(resource, value, f"{field}.resources.{kind}[{resource}]")
    for resource in requests:
        if is_extended(resource) and requests[resource] != limits.get(resource):
            yield _unequal(resource, requests, limits, f"{field}.resources")


def _unequal(resource: str, requests: JSON, limits: JSON, field: str) -> Cause:
    if resource not in limits:
        message = "Required value: Limit must be set for non overcommitable resources"
        return REQUIRED, message, f"{field}.limits"
    value = f'Invalid value: "{requests[resource]}"'
    message = f"{value}: must be equal to {resource} limit of {limits[resource]}"
    return INVALID, message, f"{field}.requests"


def _amount_causes(resource: str, value: object, field: str) -> Iterator[Cause]:
    try:
        amount = parse_quantity(value)
    except ValueError as error:
        yield INVALID, f'Invalid value: "{value}": {error}', field
        return
    if amount < 0:
        yield INVALID, f'Invalid value: "{value}": must be greater than or equal to 0', field
    if is_extended(resource) and amount.denominator != 1:
        yield INVALID, f'Invalid value: "{value}": must be an integer', field


def _quota_causes(obj: JSON) -> Iterator[Cause]:
    for key, value in (obj.get("spec", {}).get("hard") or {}).items():
        field = f"spec.hard[{key}]"
        if _QUALIFIED.fullmatch(key) is None:
            yield INVALID, f'Invalid value: "{key}": name part must consist of alphanumerics', field
        elif "/" not in key and _STANDARD.fullmatch(key) is None:
            message = "must be a standard resource for quota"
            yield INVALID, f'Invalid value: "{key}": {message}', field
        yield from _amount_causes(key, value, field)


def _fixed(pod: JSON) -> JSON:
    """Return a pod's spec without what may change."""
    spec: JSON = copy.deepcopy(pod["spec"])
    for key in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"):
        spec.pop(key, None)
    for place in ("containers", "initContainers"):
        for container in spec.get(place, []):
            container.pop("image", None)
    return spec
