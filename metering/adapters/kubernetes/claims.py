"""ResourceClaims, ResourceSlices and DeviceClasses: what dynamic resource allocation assigns.

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from metering.adapters.kubernetes.fields import (
    DELETION_AHEAD,
    ObjectReader,
    listing,
    mapping,
    objects,
    required,
    shown,
)
from metering.adapters.kubernetes.pods import created_at
from metering.protocols.watch import ClaimedDevice, ClaimState, ClassState, SliceState

FOR_EXTENDED_RESOURCE: Final = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of what the scheduler made for a pod that requests an extended resource; any client
may write it."""
_NAME_MAX: Final = 253
_RESOURCE_MAX: Final = 317
"""A domain, a slash and a label's length."""
_TEXT_MAX: Final = 512
_JSON = dict[str, Any]


def claim_state(obj: _JSON, *, seen_at: datetime) -> ClaimState:
    """Return a claim's state.

    Raises:
        SourceUnavailableError: This is no claim of an API server.
    """
    reader = ObjectReader(seen_at)
    metadata = mapping(obj.get("metadata"), "metadata")
    status = mapping(obj.get("status"), "status")
    allocation = mapping(status.get("allocation"), "status.allocation")
    return ClaimState(
        uid=required(metadata.get("uid"), "metadata.uid", characters_max=64),
        namespace=required(metadata.get("namespace"), "metadata.namespace", characters_max=63),
        name=required(metadata.get("name"), "metadata.name"),
        resource_version=required(
            metadata.get("resourceVersion"), "metadata.resourceVersion", characters_max=64
        ),
        created_at=created_at(metadata, reader),
        devices=tuple(_devices(obj, allocation, reader)),
        allocated_at=reader.moment(
            allocation.get("allocationTimestamp"), "status.allocation.allocationTimestamp"
        ),
        node=_node(allocation),
        consumers=tuple(_consumers(status)),
        deletion_at=reader.moment(
            metadata.get("deletionTimestamp"), "metadata.deletionTimestamp", ahead=DELETION_AHEAD
        ),
        is_for_extended_resource=_annotations(metadata).get(FOR_EXTENDED_RESOURCE) == "true",
        defects=reader.defects,
    )


def slice_state(obj: _JSON) -> SliceState:
    """Return a slice's state.

    Raises:
        SourceUnavailableError: This is no slice of an API server.
    """
    metadata = mapping(obj.get("metadata"), "metadata")
    spec = mapping(obj.get("spec"), "spec")
    return SliceState(
        uid=required(metadata.get("uid"), "metadata.uid", characters_max=64),
        name=required(metadata.get("name"), "metadata.name"),
        resource_version=required(
            metadata.get("resourceVersion"), "metadata.resourceVersion", characters_max=64
        ),
        driver=shown(spec.get("driver"), characters_max=_NAME_MAX),
        pool=shown(mapping(spec.get("pool"), "spec.pool").get("name"), characters_max=_NAME_MAX),
        node=shown(spec.get("nodeName"), characters_max=_NAME_MAX),
        devices={
            required(device.get("name"), "a device's name"): dict(_properties(device))
            for device in objects(spec.get("devices"), "spec.devices")
        },
    )


def class_state(obj: _JSON, *, seen_at: datetime) -> ClassState:
    """Return a device class's state.

    Raises:
        SourceUnavailableError: This is no device class of an API server.
    """
    metadata = mapping(obj.get("metadata"), "metadata")
    spec = mapping(obj.get("spec"), "spec")
    return ClassState(
        uid=required(metadata.get("uid"), "metadata.uid", characters_max=64),
        name=required(metadata.get("name"), "metadata.name"),
        resource_version=required(
            metadata.get("resourceVersion"), "metadata.resourceVersion", characters_max=64
        ),
        created_at=created_at(metadata, ObjectReader(seen_at)),
        extended_resource=shown(spec.get("extendedResourceName"), characters_max=_RESOURCE_MAX),
    )


def _annotations(metadata: _JSON) -> _JSON:
    return mapping(metadata.get("annotations"), "metadata.annotations")


def _devices(obj: _JSON, allocation: _JSON, reader: ObjectReader) -> Iterator[ClaimedDevice]:
    classes, administrative = _requests(mapping(obj.get("spec"), "spec"))
    results = mapping(allocation.get("devices"), "status.allocation.devices").get("results")
    for result in objects(results, "status.allocation.devices.results"):
        request = shown(result.get("request"), characters_max=_NAME_MAX)
        if result.get("adminAccess") or request in administrative:
            continue
        if result.get("shareID"):
            # Several claims hold parts of this device, and the share of each is unknown.
            reader.note(f"The request {request} holds a share of a device, which is not sized.")
        if request not in classes:
            reader.note(f"The allocation answers {request}, which the claim does not request.")
        yield ClaimedDevice(
            device_class=classes.get(request, ""),
            driver=shown(result.get("driver"), characters_max=_NAME_MAX),
            pool=shown(result.get("pool"), characters_max=_NAME_MAX),
            device=shown(result.get("device"), characters_max=_NAME_MAX),
        )


def _requests(spec: _JSON) -> tuple[dict[str, str], set[str]]:
    """Return the device class by request, and the requests that only look on.

    An alternative of `firstAvailable` is named "request/alternative" where it was taken.
    """
    classes: dict[str, str] = {}
    administrative: set[str] = set()
    devices = mapping(spec.get("devices"), "spec.devices")
    for entry in objects(devices.get("requests"), "spec.devices.requests"):
        name = shown(entry.get("name"), characters_max=_NAME_MAX)
        exactly = entry.get("exactly")
        if exactly is not None:
            asked = mapping(exactly, "exactly")
            classes[name] = shown(asked.get("deviceClassName"), characters_max=_NAME_MAX)
            if asked.get("adminAccess"):
                administrative.add(name)
        for other in objects(entry.get("firstAvailable"), "firstAvailable"):
            alternative = f"{name}/{shown(other.get('name'), characters_max=_NAME_MAX)}"
            classes[alternative] = shown(other.get("deviceClassName"), characters_max=_NAME_MAX)
    return classes, administrative


def _node(allocation: _JSON) -> str:
    """Return the one node an allocation selects, by name; "" when it selects otherwise."""
    selector = mapping(allocation.get("nodeSelector"), "nodeSelector")
    terms = objects(selector.get("nodeSelectorTerms"), "nodeSelectorTerms")
    if len(terms) != 1:
        return ""
    for match in objects(terms[0].get("matchFields"), "matchFields"):
        values = listing(match.get("values"), "values")
        is_one = match.get("operator") == "In" and len(values) == 1
        if match.get("key") == "metadata.name" and is_one:
            return shown(values[0], characters_max=_NAME_MAX)
    return ""


def _consumers(status: _JSON) -> Iterator[tuple[str, str]]:
    for consumer in objects(status.get("reservedFor"), "status.reservedFor"):
        if consumer.get("resource") == "pods" and not consumer.get("apiGroup"):
            yield (
                required(consumer.get("uid"), "a consumer's uid", characters_max=64),
                shown(consumer.get("name"), characters_max=_NAME_MAX),
            )


def _properties(device: _JSON) -> Iterator[tuple[str, str]]:
    """Yield attributes by name and capacities by "capacity/<name>", all as text."""
    for name, value in mapping(device.get("attributes"), "attributes").items():
        yield name, _text(next(iter(mapping(value, "an attribute").values()), ""))
    for name, value in mapping(device.get("capacity"), "capacity").items():
        yield f"capacity/{name}", _text(mapping(value, "a capacity").get("value", ""))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return shown(str(value), characters_max=_TEXT_MAX)
