"""Pod reviews: a pod's GPU requests, from the object that an API server sends."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from metering.domain.catalogue.names import CLASS_PREFIX, DEVICE_NAMES, OTHER_DEVICES
from metering.domain.catalogue.units import INIT, OVERHEAD, REGULAR, SIDECAR, effective_units
from quotas.domain.admission.hidden_gpus import ways_in
from quotas.domain.admission.node_fit import Placement, placement_of
from quotas.domain.admission.pod_fields import (
    JSON,
    UNITS_MAX,
    PodInvalidError,
    mapping,
    objects,
    text,
    whole_units,
)

OWNER_ANNOTATION: Final = "gpu-ledger.io/owner"
WORK_KIND_LABEL: Final = "gpu-ledger.io/work-kind"
GPU_PATTERN: Final = re.compile(DEVICE_NAMES)
"""Raw resource names that are devices, as the watch of the Kubernetes API knows them too."""
CLAIM_PREFIX: Final = "claim/"
RESOURCE_CHARACTERS_MAX: Final = 260
"""Of a resource name, as the ledger keeps it: "claim/" and the longest device class."""
_CONTROLLER_MAX: Final = 320
_OWNER_MAX: Final = 150
_UID_MAX: Final = 64


@dataclass(frozen=True)
class PodAsk:
    """GPU request of one pod.

    Attributes:
        uid: "" before it has one, as a mutating webhook sees it.
        requests: GPU resource, or "claim/<device class>", to effective units, 1 or more.
        has_claims: Whether it uses ResourceClaims; these are admitted themselves.
        hidden: How containers that request no GPU reach some, one phrase each.
        beside: How containers that request GPUs may reach more of them.
        owner: Value of its annotation; "" without one.
        work_kind: Value of its label; "" without one.
        controller: Controlling owner as "Kind/name"; "" without one.
        placement: Which nodes it may land on.
    """

    uid: str
    name: str
    requests: Mapping[str, int]
    has_claims: bool
    hidden: tuple[str, ...]
    beside: tuple[str, ...]
    owner: str
    work_kind: str
    controller: str
    priority_class: str
    placement: Placement

    @property
    def concerns_gpus(self) -> bool:
        """Whether there is anything to decide."""
        return bool(self.requests or self.hidden)


NO_CLASSES: Final[Mapping[str, str]] = MappingProxyType({})


def pod_ask(
    obj: JSON, *, offered: frozenset[str] = frozenset(), classes: Mapping[str, str] = NO_CLASSES
) -> PodAsk:
    """Return the GPU request of a pod or a pod template.

    Args:
        obj: The raw object.
        offered: Resource names that are GPUs on this cluster, beside the known pattern.
        classes: The device class that serves each other resource name on this cluster.

    Raises:
        PodInvalidError: No API server creates such a pod, or it requests part of a GPU.
    """
    metadata = mapping(obj.get("metadata"), "metadata")
    spec = mapping(obj.get("spec"), "spec")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    labels = mapping(metadata.get("labels"), "metadata.labels")
    names = _Names(offered, classes)
    ways = ways_in(metadata, spec, requests=lambda container: _asks_gpus(container, names))
    return PodAsk(
        uid=text(metadata.get("uid"), "metadata.uid", limit=_UID_MAX),
        name=text(metadata.get("name") or metadata.get("generateName"), "metadata.name"),
        requests=MappingProxyType(_requests(spec, names)),
        has_claims=any(True for _ in objects(spec.get("resourceClaims"), "spec.resourceClaims")),
        hidden=ways.hidden,
        beside=ways.beside,
        owner=text(annotations.get(OWNER_ANNOTATION), OWNER_ANNOTATION, limit=_OWNER_MAX),
        work_kind=text(labels.get(WORK_KIND_LABEL), WORK_KIND_LABEL),
        controller=_controller(metadata),
        priority_class=text(spec.get("priorityClassName"), "spec.priorityClassName"),
        placement=placement_of(spec),
    )


@dataclass(frozen=True)
class _Names:
    """Which resource names are devices on a cluster; see `pod_ask`."""

    offered: frozenset[str]
    classes: Mapping[str, str]

    def counted_as(self, resource: str) -> str:
        """Return the name a resource is counted under; "" where it is no device."""
        if resource.startswith(CLASS_PREFIX):
            return CLAIM_PREFIX + resource.removeprefix(CLASS_PREFIX)
        if is_gpu(resource, offered=self.offered):
            return resource
        device_class = self.classes.get(resource, "")
        return f"{CLAIM_PREFIX}{device_class}" if device_class else ""


@dataclass(frozen=True)
class _ContainerAsk:
    """Request of one container for one resource."""

    kind: str
    units: int
    order: int | None


def _requests(spec: JSON, names: _Names) -> dict[str, int]:
    asks: dict[str, list[_ContainerAsk]] = {}
    for kind, order, container in _containers(spec):
        for resource, quantity in _amounts(container):
            counted_as = names.counted_as(resource)
            if not counted_as:
                continue
            units = whole_units(quantity)
            if units is None:
                name = text(container.get("name"), "name")
                whose = (
                    f"Container {name}" if kind != OVERHEAD else "The overhead of its runtime class"
                )
                raise PodInvalidError(
                    f"{whose} asks for {str(quantity)[:40]} of {resource}: whole devices only."
                )
            asks.setdefault(counted_as, []).append(_ContainerAsk(kind, units, order))
    effective = {resource: effective_units(listed) for resource, listed in sorted(asks.items())}
    refuse_uncountable(effective)
    return {resource: units for resource, units in effective.items() if units > 0}


def refuse_uncountable(requests: Mapping[str, int]) -> None:
    """Refuse what no cluster has and no ledger can count.

    Raises:
        PodInvalidError: Too many units, of one resource or together, or a name that is too long.
    """
    for resource in requests:
        if len(resource) > RESOURCE_CHARACTERS_MAX:
            raise PodInvalidError(
                f"The resource name {resource[:40]}... has more than {RESOURCE_CHARACTERS_MAX} "
                "characters."
            )
    asked = sum(requests.values())
    if asked > UNITS_MAX:
        raise PodInvalidError(f"It asks for {asked} devices: no more than {UNITS_MAX} are counted.")


def is_gpu(resource: str, *, offered: frozenset[str] = frozenset()) -> bool:
    """Whether a resource name is a GPU's, a device class among them."""
    return (
        resource in offered
        or resource.startswith(CLASS_PREFIX)
        or GPU_PATTERN.fullmatch(resource) is not None
    )


def _containers(spec: JSON) -> Iterator[tuple[str, int | None, JSON]]:
    for order, container in enumerate(objects(spec.get("initContainers"), "spec.initContainers")):
        yield SIDECAR if container.get("restartPolicy") == "Always" else INIT, order, container
    for name in ("containers", "ephemeralContainers"):
        # Ephemeral containers may not request resources; if one does, it counts like any other.
        for container in objects(spec.get(name), f"spec.{name}"):
            yield REGULAR, None, container
    overhead = mapping(spec.get("overhead"), "spec.overhead")
    if overhead:
        yield OVERHEAD, None, {"resources": {"requests": overhead}}


def _amounts(container: JSON) -> Iterator[tuple[str, object]]:
    """Yield a container's requests: the API server sets missing requests from limits."""
    resources = mapping(container.get("resources"), "resources")
    limits = mapping(resources.get("limits"), "resources.limits")
    requests = mapping(resources.get("requests"), "resources.requests")
    yield from {**limits, **requests}.items()


def _asks_gpus(container: JSON, names: _Names) -> bool:
    """Whether a container requests GPUs of NVIDIA; other devices are no reason to reach these."""
    return any(
        bool(names.counted_as(resource))
        and not resource.startswith(OTHER_DEVICES)
        and bool(whole_units(quantity))
        for resource, quantity in _amounts(container)
    )


def _controller(metadata: JSON) -> str:
    for owner in objects(metadata.get("ownerReferences"), "metadata.ownerReferences"):
        if owner.get("controller") is True:
            controller = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            return text(controller, "metadata.ownerReferences", limit=_CONTROLLER_MAX)
    return ""
