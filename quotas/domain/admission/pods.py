"""Pod reviews: a pod's GPU requests, from the object that an API server sends."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from metering.domain.catalogue.units import INIT, REGULAR, SIDECAR, effective_units
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
GPU_PATTERN: Final = re.compile(r"nvidia\.com/(gpu|mig-).*")
"""Raw resource names that are GPUs, as the watch of the Kubernetes API knows them too."""
CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Resource names that mean a device class, without a claim of the pod's own (KEP-5004)."""
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


def pod_ask(obj: JSON, *, offered: frozenset[str] = frozenset()) -> PodAsk:
    """Return the GPU request of a pod or a pod template.

    Args:
        obj: The raw object.
        offered: Resource names that are GPUs on this cluster, beside the known pattern.

    Raises:
        PodInvalidError: No API server creates such a pod, or it requests part of a GPU.
    """
    metadata = mapping(obj.get("metadata"), "metadata")
    spec = mapping(obj.get("spec"), "spec")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    labels = mapping(metadata.get("labels"), "metadata.labels")
    ways = ways_in(metadata, spec, requests=lambda container: _asks_gpus(container, offered))
    return PodAsk(
        uid=text(metadata.get("uid"), "metadata.uid", limit=_UID_MAX),
        name=text(metadata.get("name") or metadata.get("generateName"), "metadata.name"),
        requests=MappingProxyType(_requests(spec, offered)),
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
class _ContainerAsk:
    """Request of one container for one resource."""

    kind: str
    units: int
    order: int | None


def _requests(spec: JSON, offered: frozenset[str]) -> dict[str, int]:
    asks: dict[str, list[_ContainerAsk]] = {}
    for kind, order, container in _containers(spec):
        for resource, quantity in _amounts(container):
            if not is_gpu(resource, offered=offered):
                continue
            units = whole_units(quantity)
            if units is None:
                name = text(container.get("name"), "name")
                raise PodInvalidError(
                    f"Container {name} asks for {str(quantity)[:40]} of {resource}: whole devices "
                    "only."
                )
            asks.setdefault(_kubernetes_name(resource), []).append(
                _ContainerAsk(kind, units, order)
            )
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


def _kubernetes_name(resource: str) -> str:
    if resource.startswith(CLASS_PREFIX):
        return CLAIM_PREFIX + resource.removeprefix(CLASS_PREFIX)
    return resource


def _containers(spec: JSON) -> Iterator[tuple[str, int | None, JSON]]:
    for order, container in enumerate(objects(spec.get("initContainers"), "spec.initContainers")):
        yield SIDECAR if container.get("restartPolicy") == "Always" else INIT, order, container
    for name in ("containers", "ephemeralContainers"):
        # Ephemeral containers may not request resources; if one does, it counts like any other.
        for container in objects(spec.get(name), f"spec.{name}"):
            yield REGULAR, None, container


def _amounts(container: JSON) -> Iterator[tuple[str, object]]:
    """Yield a container's requests: the API server sets missing requests from limits."""
    resources = mapping(container.get("resources"), "resources")
    limits = mapping(resources.get("limits"), "resources.limits")
    requests = mapping(resources.get("requests"), "resources.requests")
    yield from {**limits, **requests}.items()


def _asks_gpus(container: JSON, offered: frozenset[str]) -> bool:
    return any(
        is_gpu(resource, offered=offered) and bool(whole_units(quantity))
        for resource, quantity in _amounts(container)
    )


def _controller(metadata: JSON) -> str:
    for owner in objects(metadata.get("ownerReferences"), "metadata.ownerReferences"):
        if owner.get("controller") is True:
            controller = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            return text(controller, "metadata.ownerReferences", limit=_CONTROLLER_MAX)
    return ""
