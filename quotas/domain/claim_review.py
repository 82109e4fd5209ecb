"""Claim reviews: how many devices of which classes a ResourceClaim asks for.

A claim holds its devices under its own uid, whichever pods use it, and the ledger knows it by that
uid. So claims are admitted themselves, also those that a controller makes from a pod's template.
Source: resource.k8s.io/v1; kubernetes, pkg/quota/v1/evaluator/core/resource_claims.go for what
"All" and "firstAvailable" count as.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from quotas.domain.pod_fields import JSON, PodInvalidError, mapping, objects, text
from quotas.domain.quantities import UNITS_MAX

ALL_DEVICES: Final = 32
"""What `allocationMode: All` counts as: the most devices one claim can get."""
FOR_EXTENDED_RESOURCE: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that the scheduler made for what a pod requests as a resource."""


def claimed_classes(obj: JSON) -> Mapping[str, int]:
    """Return the device classes a claim asks for, with the most devices it can get of each.

    A request with `adminAccess` only looks on, and is nothing here.

    Raises:
        PodInvalidError: No API server makes such a claim.
    """
    devices = mapping(mapping(obj.get("spec"), "spec").get("devices"), "spec.devices")
    classes: dict[str, int] = {}
    for request in objects(devices.get("requests"), "spec.devices.requests"):
        for name, count in _most(_alternatives(request)).items():
            classes[name] = classes.get(name, 0) + count
    return MappingProxyType(dict(sorted(classes.items())))


def is_for_extended_resource(obj: JSON) -> bool:
    """Whether a claim says that it was counted with its pod; only the scheduler can know.

    Raises:
        PodInvalidError: No API server makes such a claim.
    """
    metadata = mapping(obj.get("metadata"), "metadata")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    return annotations.get(FOR_EXTENDED_RESOURCE) == "true"


def _alternatives(request: JSON) -> Iterable[JSON]:
    """Return what may answer a request: one thing exactly, or the first of several."""
    if request.get("exactly") is not None:
        return [mapping(request["exactly"], "exactly")]
    if request.get("firstAvailable") is not None:
        return objects(request["firstAvailable"], "firstAvailable")
    # Before resource.k8s.io/v1beta2 the one thing stood in the request itself.
    return [request]


def _most(alternatives: Iterable[JSON]) -> dict[str, int]:
    most: dict[str, int] = {}
    for one in alternatives:
        name = text(one.get("deviceClassName"), "deviceClassName")
        if name and one.get("adminAccess") is not True:
            most[name] = max(most.get(name, 0), _count(one))
    return most


def _count(request: JSON) -> int:
    if request.get("allocationMode") == "All":
        return ALL_DEVICES
    count = request.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= UNITS_MAX:
        raise PodInvalidError("The count of a device request is no number of devices.")
    return count
