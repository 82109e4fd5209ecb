"""Pods: the GPUs each requests, and its phase.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from metering.adapters.kubernetes.fields import (
    DELETION_AHEAD,
    UNITS_MAX,
    ObjectReader,
    mapping,
    objects,
    read_time,
    required,
    shown,
)
from metering.domain.catalogue.names import CLASS_PREFIX
from metering.domain.catalogue.units import sanitise
from metering.protocols import ContainerKind, ContainerRequest
from metering.protocols.watch import PodState
from tenants.domain.errors import SourceUnavailableError

TERMINAL: Final = frozenset({"Succeeded", "Failed"})
NEVER: Final = datetime(1970, 1, 2, tzinfo=UTC)
"""Runtimes report 1970 for a container that never started."""
IMPOSSIBLE_UNITS: Final = -1
"""Replaces an impossible amount, so that the pod is not treated as one without a request."""
CONTROLLER_CHARACTERS_MAX: Final = 320
REASON_CHARACTERS_MAX: Final = 128
OWNER_CHARACTERS_MAX: Final = 150
_UID_CHARACTERS_MAX: Final = 64
_NAMESPACE_CHARACTERS_MAX: Final = 63
_JSON = dict[str, Any]


def _no_class(resource: str) -> str:  # noqa: ARG001 - As a lookup is called.
    return ""


def pod_state(
    obj: _JSON,
    *,
    seen_at: datetime,
    is_gpu: Callable[[str], bool],
    user_label: str,
    owner_annotation: str = "",
    class_of: Callable[[str], str] = _no_class,
) -> PodState | None:
    """Return a pod's state; see `_readable`. One that cannot be read is there all the same.

    Its defects record that, and it has no request; a list or stream does not stop because of it.

    Raises:
        SourceUnavailableError: This is no pod of an API server: it has no uid, name or version.
    """
    try:
        return _readable(
            obj,
            seen_at=seen_at,
            is_gpu=is_gpu,
            user_label=user_label,
            owner_annotation=owner_annotation,
            class_of=class_of,
        )
    except SourceUnavailableError as error:
        _, _, why = str(error).partition(": ")
        return _unreadable(obj, seen_at=seen_at, why=why)


def _unreadable(obj: _JSON, *, seen_at: datetime, why: str) -> PodState:
    named = _named(mapping(obj.get("metadata"), "metadata"), seen_at.replace(microsecond=0))
    return replace(named, defects=(f"Its object cannot be read: {why}",))


def _named(metadata: _JSON, created: datetime) -> PodState:
    """Return a pod of which only uid, names, version and creation are read."""
    return PodState(
        uid=required(metadata.get("uid"), "metadata.uid", characters_max=_UID_CHARACTERS_MAX),
        namespace=required(
            metadata.get("namespace"),
            "metadata.namespace",
            characters_max=_NAMESPACE_CHARACTERS_MAX,
        ),
        name=required(metadata.get("name"), "metadata.name"),
        resource_version=required(
            metadata.get("resourceVersion"), "metadata.resourceVersion", characters_max=64
        ),
        node="",
        phase="",
        created_at=created,
    )


def _readable(
    obj: _JSON,
    *,
    seen_at: datetime,
    is_gpu: Callable[[str], bool],
    user_label: str,
    owner_annotation: str,
    class_of: Callable[[str], str],
) -> PodState | None:
    """Return a pod's state; None for one that requests no GPU and uses no device claim.

    That is checked first, since most pods are such. Nothing is lost by it: neither the GPU requests
    of a pod nor its claims ever change.

    Args:
        obj: The raw object.
        seen_at: When it arrived.
        is_gpu: Whether a raw resource name is a GPU's.
        user_label: The label that names the owning user, raw or as Prometheus spells it.
        owner_annotation: The annotation that admission writes; "" for none.
        class_of: Returns the device class that serves a resource name, "" for none.

    Raises:
        SourceUnavailableError: This is no pod of an API server.
    """
    spec = mapping(obj.get("spec"), "spec")
    status = mapping(obj.get("status"), "status")
    asks = list(_asks(spec, _names_of(is_gpu, class_of)))
    extended = mapping(status.get("extendedResourceClaimStatus"), "extendedResourceClaimStatus")
    if not asks and not spec.get("resourceClaims") and not extended:
        return None
    reader = ObjectReader(seen_at)
    metadata = mapping(obj.get("metadata"), "metadata")
    phase = shown(status.get("phase"), characters_max=16)
    node = shown(spec.get("nodeName"), characters_max=253)
    deletion_at = reader.moment(
        metadata.get("deletionTimestamp"), "metadata.deletionTimestamp", ahead=DELETION_AHEAD
    )
    containers = _ContainerTimes(status, reader)
    return replace(
        _named(metadata, created_at(metadata, reader)),
        node=node,
        phase=phase,
        reason=shown(status.get("reason"), characters_max=REASON_CHARACTERS_MAX),
        requests=tuple(_requests(asks, reader)),
        claims=tuple(_claims(spec, status)),
        extended_claim=shown(extended.get("resourceClaimName"), characters_max=253),
        scheduled_at=_scheduled_at(status, reader) if node else None,
        started_at=containers.started_at,
        finished_at=containers.finished_at(phase, is_deleted=deletion_at is not None),
        deletion_at=deletion_at,
        owner=_owner(metadata, user_label),
        stamped_owner=_annotated(metadata, owner_annotation),
        controller=_controller(metadata),
        priority_class=shown(spec.get("priorityClassName"), characters_max=253),
        priority=_priority(spec.get("priority")),
        defects=reader.defects,
    )


def created_at(metadata: _JSON, reader: ObjectReader) -> datetime:
    """Return when an object was made; the time of the observation when it has none."""
    at = reader.moment(metadata.get("creationTimestamp"), "metadata.creationTimestamp")
    if at is None and metadata.get("creationTimestamp") is None:
        reader.note("metadata.creationTimestamp is missing.")
    return at or reader.seen_at.replace(microsecond=0)


_Ask = tuple[str, ContainerKind, int | None, str, object]


def _names_of(
    is_gpu: Callable[[str], bool], class_of: Callable[[str], str]
) -> Callable[[str], str]:
    """Return a function that gives a device's resource name; "" where it is no device's."""

    def name_of(resource: str) -> str:
        if is_gpu(resource):
            return resource
        device_class = class_of(resource)
        return f"{CLASS_PREFIX}{device_class}" if device_class else ""

    return name_of


def _asks(spec: _JSON, name_of: Callable[[str], str]) -> Iterator[_Ask]:
    """Yield container, kind, order, resource and raw quantity of every GPU request."""
    for order, container in enumerate(objects(spec.get("initContainers"), "spec.initContainers")):
        is_sidecar = container.get("restartPolicy") == "Always"
        kind = ContainerKind.SIDECAR if is_sidecar else ContainerKind.INIT
        yield from _container_asks(container, kind, order, name_of)
    for container in objects(spec.get("containers"), "spec.containers"):
        yield from _container_asks(container, ContainerKind.REGULAR, None, name_of)
    for resource, quantity in mapping(spec.get("overhead"), "spec.overhead").items():
        if quantity != "0" and (name := name_of(resource)):
            yield "", ContainerKind.OVERHEAD, None, name, quantity


def _container_asks(
    container: _JSON, kind: ContainerKind, order: int | None, name_of: Callable[[str], str]
) -> Iterator[_Ask]:
    resources = mapping(container.get("resources"), "resources")
    if not resources:
        return
    # The API server fills requests from limits before it stores a pod; the same is done here.
    amounts = {
        **mapping(resources.get("limits"), "limits"),
        **mapping(resources.get("requests"), "requests"),
    }
    for resource, quantity in amounts.items():
        if quantity != "0" and (name := name_of(resource)):
            yield str(container.get("name", "")), kind, order, name, quantity


def _requests(asks: list[_Ask], reader: ObjectReader) -> Iterator[ContainerRequest]:
    for container, kind, order, resource, quantity in asks:
        name = shown(container, characters_max=63)
        whose = f"request of container {name}" if name else "overhead of its runtime class"
        units = reader.units(quantity, f"The {whose} for {resource}")
        if units != 0:
            yield ContainerRequest(
                name, kind, resource, IMPOSSIBLE_UNITS if units is None else units, order
            )


def _claims(spec: _JSON, status: _JSON) -> Iterator[str]:
    """Yield the names of the ResourceClaims a pod uses; those of a template once they are made."""
    made = {
        str(entry.get("name")): entry.get("resourceClaimName")
        for entry in objects(status.get("resourceClaimStatuses"), "resourceClaimStatuses")
    }
    for entry in objects(spec.get("resourceClaims"), "spec.resourceClaims"):
        name = entry.get("resourceClaimName") or made.get(str(entry.get("name")))
        if name:
            yield shown(name, characters_max=253)


def _scheduled_at(status: _JSON, reader: ObjectReader) -> datetime | None:
    """Return when a pod was bound.

    A pod that was made with its node already named passes no scheduler: it counts from when the
    kubelet took it.
    """
    for condition in objects(status.get("conditions"), "status.conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return reader.moment(condition.get("lastTransitionTime"), "The time of PodScheduled")
    return reader.moment(status.get("startTime"), "status.startTime")


class _ContainerTimes:
    """When the containers of one pod ran; ephemeral ones hold no GPU and are left out."""

    def __init__(self, status: _JSON, reader: ObjectReader) -> None:
        """Read every state; a time of 1970 means that a container never ran."""
        self._states: list[_JSON] = []
        self._started: list[datetime] = []
        self._finished: list[datetime] = []
        for name in ("initContainerStatuses", "containerStatuses"):
            for entry in objects(status.get(name), name):
                self._read(entry, reader)

    @property
    def started_at(self) -> datetime | None:
        """Return when the first container started; None when none ever did."""
        return min(self._started, default=None)

    def finished_at(self, phase: str, *, is_deleted: bool) -> datetime | None:
        """Return when the last container ended; None while one may still run or start.

        In a terminal phase a container that waits will never run, so only running ones count.
        """
        if any(state.get("running") is not None for state in self._states):
            return None
        has_ended = phase in TERMINAL or (
            is_deleted and all(state.get("terminated") is not None for state in self._states)
        )
        return max(self._finished, default=None) if has_ended else None

    def _read(self, entry: _JSON, reader: ObjectReader) -> None:
        state = mapping(entry.get("state"), "state")
        self._states.append(state)
        for part in (state, mapping(entry.get("lastState"), "lastState")):
            running = mapping(part.get("running"), "running")
            ended = mapping(part.get("terminated"), "terminated")
            self._keep(self._started, running.get("startedAt"), "startedAt", reader)
            self._keep(self._started, ended.get("startedAt"), "startedAt", reader)
            self._keep(self._finished, ended.get("finishedAt"), "finishedAt", reader)

    def _keep(self, times: list[datetime], value: object, name: str, reader: ObjectReader) -> None:
        if value is None or (isinstance(value, str) and _is_never(value)):
            return
        at = reader.moment(value, f"A container's {name}", ahead=timedelta(days=1))
        if at is not None:
            times.append(at)


def _is_never(text: str) -> bool:
    at = read_time(text)
    return at is not None and at < NEVER


def _annotated(metadata: _JSON, owner_annotation: str) -> str:
    """Return the owner in the annotation that admission writes; "" where it is not asked."""
    if not owner_annotation:
        return ""
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    return shown(annotations.get(owner_annotation), characters_max=OWNER_CHARACTERS_MAX)


def _owner(metadata: _JSON, user_label: str) -> str:
    """Return the value of the user label, which a cluster may have in Prometheus' spelling."""
    if not user_label:
        return ""
    labels = mapping(metadata.get("labels"), "metadata.labels")
    found = labels.get(user_label)
    if found is None:
        wanted = sanitise(user_label)
        found = next((value for key, value in labels.items() if sanitise(key) == wanted), "")
    return shown(found, characters_max=OWNER_CHARACTERS_MAX)


def _controller(metadata: _JSON) -> str:
    for owner in objects(metadata.get("ownerReferences"), "metadata.ownerReferences"):
        if owner.get("controller"):
            text = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            return shown(text, characters_max=CONTROLLER_CHARACTERS_MAX)
    return ""


def _priority(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > UNITS_MAX:
        return None
    return value
