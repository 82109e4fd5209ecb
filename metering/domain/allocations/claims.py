"""A ResourceClaim over time: when its devices were allocated, for which pods, and its names.

A claim that several pods use one after another may be deallocated and allocated again; each
allocation is a separate row. It is a new one when a pod uses it that never did before, because the
scheduler allocates a claim and reserves it for a pod in one step. An end that is only a bound was
inferred from a list; later evidence that the claim is in use shows that the list was wrong.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from metering.domain.allocations.timeline import EndKind, seconds_between, whole_second
from metering.domain.catalogue.names import CLASS_PREFIX
from metering.domain.catalogue.units import CLAIM_PREFIX

CLASS_LENGTH_MAX: Final = 80
"""A device class's name may be too long for a record's resource column beside the claim's uid; the
rest is cut."""


@dataclass
class ClaimRow:
    """One allocation of one claim's devices of one class.

    Attributes:
        resource: "claim/<device class>", from the second allocation on with "#<n>".
        labels: What the devices are; empty while unknown.
        is_new: Whether it is missing in the ledger.
        is_changed: Whether it differs from the ledger.
    """

    claim_uid: str
    resource: str
    units: int
    begin_at: datetime
    last_seen_at: datetime
    end_at: datetime | None = None
    end_kind: EndKind = EndKind.OPEN
    slack_seconds: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    name: str = ""
    node: str = ""
    is_new: bool = False
    is_changed: bool = False

    @property
    def device_class(self) -> str:
        """Return the class without the number of the allocation."""
        return self.resource.removeprefix("claim/").partition("#")[0]


@dataclass
class ConsumerRow:
    """One pod a claim is reserved for; see models.ClaimConsumer.

    Attributes:
        is_return: Whether the claim was reserved for it before, so that its bind is not the begin.
    """

    claim_uid: str
    pod_uid: str
    pod_name: str
    begin_at: datetime
    end_at: datetime | None = None
    is_new: bool = False
    is_changed: bool = False
    is_return: bool = False


@dataclass(frozen=True)
class ClaimSnapshot:
    """One state of a claim.

    Attributes:
        units: Device class to allocated devices; empty while it is not allocated, or when it is
            gone.
        labels: Device class to what its devices are.
        consumers: Pod uid to pod name.
        observed_at: When it was observed.
        is_prompt: Whether the state changed at that time.
        bound_at: The earliest bind of its consumers, where known.
        counted_with_pods: Device classes whose devices its pods request as resources.
    """

    uid: str
    namespace: str
    name: str
    node: str
    units: Mapping[str, int]
    labels: Mapping[str, Mapping[str, str]]
    consumers: Mapping[str, str]
    observed_at: datetime
    is_prompt: bool
    allocated_at: datetime | None = None
    bound_at: datetime | None = None
    counted_with_pods: frozenset[str] = frozenset()


def is_claim_of_resource(
    name: str, requests: Mapping[str, object], *, device_class: str, resource: str | None
) -> bool:
    """Whether devices of a ResourceClaim are of a resource that its pod requests, with a row.

    A device class that a pod requests as a resource has none: its ResourceClaim has.

    Args:
        name: The claim's.
        requests: What the pod's specification requests, claims as "claim/<name>".
        device_class: Of the devices.
        resource: The resource name that the class gives them, "" for none of its own; None where
            the class was never observed, so that every resource of the pod may be theirs.
    """
    if f"{CLAIM_PREFIX}{name}" in requests or f"{CLASS_PREFIX}{device_class}" in requests:
        return False
    if resource is not None:
        return resource in requests
    return not all(key.startswith((CLAIM_PREFIX, CLASS_PREFIX)) for key in requests)


def units_by_class(classes: Iterable[str]) -> Mapping[str, int]:
    """Return how many devices of each class there are, names cut to what a ledger holds."""
    return Counter(name[:CLASS_LENGTH_MAX] for name in classes)


class ClaimBook:
    """The ledger rows of some claims, updated state by state."""

    def __init__(
        self,
        rows: Sequence[ClaimRow],
        consumers: Sequence[ConsumerRow],
        *,
        alive_at: datetime | None,
    ) -> None:
        """Open the book; `alive_at` is when the watch last was healthy."""
        self.rows = list(rows)
        self.consumers = list(consumers)
        self._alive_at = alive_at

    def apply(self, snapshot: ClaimSnapshot) -> None:
        """Bring one claim up to a state."""
        is_new_use = self._is_used_anew(snapshot)
        for device_class in sorted(snapshot.units):
            self._hold(snapshot, device_class=device_class, is_new_use=is_new_use)
        self._give_back(snapshot)
        self._reserve(snapshot)

    def end_absent(self, uids: frozenset[str], *, at: datetime) -> None:
        """End what a complete list of `at`, which shows these claims, does not show."""
        for row in self.rows:
            if row.claim_uid not in uids and row.end_at is None:
                self._end(row, observed_at=at, is_prompt=False)
        for consumer in self.consumers:
            if consumer.claim_uid not in uids and consumer.end_at is None:
                _leave(consumer, at=at)

    def _is_used_anew(self, snapshot: ClaimSnapshot) -> bool:
        known = {item.pod_uid for item in self._users_of(snapshot)}
        return bool(set(snapshot.consumers) - known)

    def _of(self, snapshot: ClaimSnapshot) -> list[ClaimRow]:
        return [row for row in self.rows if row.claim_uid == snapshot.uid]

    def _hold(self, snapshot: ClaimSnapshot, *, device_class: str, is_new_use: bool) -> None:
        former = [row for row in self._of(snapshot) if row.device_class == device_class]
        for row in former:
            if row.end_at is None:
                row.last_seen_at = max(row.last_seen_at, snapshot.observed_at)
                if not row.labels and snapshot.labels.get(device_class):
                    row.labels, row.is_changed = snapshot.labels[device_class], True
                return
        if former and self._goes_on(former[-1], snapshot=snapshot, is_new_use=is_new_use):
            self._reopen(former[-1], snapshot=snapshot)
            return
        if former and not is_new_use:
            return
        begin_at = _begin_of(snapshot)
        ends = [row.end_at for row in former if row.end_at is not None]
        number = f"#{len(former) + 1}" if former else ""
        self.rows.append(
            ClaimRow(
                claim_uid=snapshot.uid,
                resource=f"claim/{device_class}{number}",
                units=snapshot.units[device_class],
                begin_at=max([begin_at, *ends]),
                last_seen_at=max(snapshot.observed_at, begin_at),
                labels=snapshot.labels.get(device_class, {}),
                namespace=snapshot.namespace,
                name=snapshot.name,
                node=snapshot.node,
                is_new=True,
            )
        )

    def _goes_on(self, row: ClaimRow, *, snapshot: ClaimSnapshot, is_new_use: bool) -> bool:
        """Whether a state shows that an allocation has not ended where it was taken to have."""
        assert row.end_at is not None  # noqa: S101 - No row is open; narrows the type.
        gone_at = row.end_at + timedelta(seconds=row.slack_seconds)
        is_bound = row.end_kind is EndKind.VANISHED_IN_GAP and snapshot.observed_at > gone_at
        is_another = snapshot.allocated_at is not None and snapshot.allocated_at > row.end_at
        if is_another or not is_bound:
            return False
        return not is_new_use or any(
            consumer.pod_uid in snapshot.consumers and _lasted_until(consumer, at=row.end_at)
            for consumer in self._users_of(snapshot)
        )

    def _reopen(self, row: ClaimRow, *, snapshot: ClaimSnapshot) -> None:
        """Reopen an allocation, and the pods that were considered gone with it."""
        assert row.end_at is not None  # noqa: S101 - As above.
        for consumer in self._users_of(snapshot):
            if consumer.pod_uid in snapshot.consumers and _lasted_until(consumer, at=row.end_at):
                consumer.is_changed = consumer.is_changed or consumer.end_at is not None
                consumer.end_at = None
        row.end_at, row.end_kind, row.slack_seconds = None, EndKind.OPEN, 0
        row.last_seen_at, row.is_changed = max(row.last_seen_at, snapshot.observed_at), True

    def _users_of(self, snapshot: ClaimSnapshot) -> list[ConsumerRow]:
        return [item for item in self.consumers if item.claim_uid == snapshot.uid]

    def _give_back(self, snapshot: ClaimSnapshot) -> None:
        for row in self._of(snapshot):
            if row.end_at is None and row.device_class in snapshot.counted_with_pods:
                # It was opened before its pods were known.
                row.end_at, row.end_kind, row.is_changed = row.begin_at, EndKind.VANISHED, True
            elif row.end_at is None and row.device_class not in snapshot.units:
                self._end(row, observed_at=snapshot.observed_at, is_prompt=snapshot.is_prompt)

    def _end(self, row: ClaimRow, *, observed_at: datetime, is_prompt: bool) -> None:
        known_gone = max(row.begin_at, whole_second(observed_at))
        row.is_changed = True
        if is_prompt:
            row.end_at, row.end_kind = known_gone, EndKind.VANISHED
            return
        alive = max(row.last_seen_at, self._alive_at or row.begin_at)
        row.end_at = max(row.begin_at, min(known_gone, whole_second(alive)))
        row.end_kind = EndKind.VANISHED_IN_GAP
        row.slack_seconds = seconds_between(row.end_at, known_gone)

    def _reserve(self, snapshot: ClaimSnapshot) -> None:
        known = self._users_of(snapshot)
        using = {item.pod_uid for item in known if item.end_at is None}
        for consumer in known:
            if consumer.pod_uid not in snapshot.consumers and consumer.end_at is None:
                _leave(consumer, at=snapshot.observed_at)
        is_held = any(row.end_at is None for row in self._of(snapshot))
        for pod_uid in sorted(snapshot.consumers.keys() - using):
            former = [item.end_at for item in known if item.pod_uid == pod_uid and item.end_at]
            # A state that arrives after a claim's end is an old one, and reopens nothing.
            if not former or is_held:
                self._come(snapshot, pod_uid=pod_uid, former=former)

    def _come(self, snapshot: ClaimSnapshot, *, pod_uid: str, former: Sequence[datetime]) -> None:
        self.consumers.append(
            ConsumerRow(
                snapshot.uid,
                pod_uid,
                snapshot.consumers[pod_uid],
                max([whole_second(snapshot.observed_at), *former]),
                is_new=True,
                is_return=bool(former),
            )
        )


def _lasted_until(consumer: ConsumerRow, *, at: datetime) -> bool:
    return consumer.end_at is None or consumer.end_at >= at


def _begin_of(snapshot: ClaimSnapshot) -> datetime:
    return whole_second(snapshot.allocated_at or snapshot.bound_at or snapshot.observed_at)


def _leave(consumer: ConsumerRow, *, at: datetime) -> None:
    consumer.end_at = max(consumer.begin_at, whole_second(at))
    consumer.is_changed = True


def record_resource(*, claim_uid: str, resource: str) -> str:
    """Return what the records of a claim's allocation name as their resource.

    Args:
        claim_uid: The claim's.
        resource: The allocation's, "claim/<class>"; from the second one on with "#<n>".
    """
    return f"{CLAIM_PREFIX}{claim_uid}/{resource.removeprefix(CLAIM_PREFIX)}"


def allocation_key(*, uid: str, resource: str) -> tuple[str, str]:
    """Return the uid and the resource of the allocation that a usage record is of.

    A pod's record has the key of the pod; a part of a claim has the key of the claim, whichever pod
    it is billed to.
    """
    claim_uid, slash, device_class = resource.removeprefix(CLAIM_PREFIX).partition("/")
    if resource.startswith(CLAIM_PREFIX) and slash:
        return claim_uid, f"{CLAIM_PREFIX}{device_class}"
    return uid, resource


def offered_resource(resource: str) -> str:
    """Return as what nodes offer a resource: a claim's class, and any other as it is."""
    if not resource.startswith(CLAIM_PREFIX):
        return resource
    device_class = resource.rpartition("/")[2].partition("#")[0]
    return f"{CLAIM_PREFIX}{device_class}"
