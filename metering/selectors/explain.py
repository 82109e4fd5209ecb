"""Explanations of a usage record or a pod, from the rows about it in every ledger."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from metering.domain.allocations.claims import allocation_key
from metering.domain.catalogue.sizing import Catalogue, rule_from_json
from metering.domain.collection.windows import GapPolicy, WindowState, whole_hours
from metering.domain.explain import (
    VERDICT_SENTENCES,
    ChargeVerdict,
    HeldFact,
    PodHour,
    QueryFact,
    Step,
    WindowFact,
    held_step,
    verdict_of,
    window_steps,
)
from metering.models import (
    CatalogueVersion,
    ExceptionState,
    MeteringException,
    MeteringWindow,
    PodAllocation,
    QueuedPod,
    UsageRecord,
)
from tenants.domain.archives import ArchivedTable
from tenants.models import Cluster
from tenants.selectors.archives import require_rows

PODS_MAX: Final = 50
"""Pods of one name that are read: names are used again, uids never."""
HOURS_MAX: Final = 24 * 31


@dataclass(frozen=True)
class PodName:
    """Which pod is meant: by its uid, or by namespace and name, in one cluster."""

    cluster_id: UUID
    uid: str = ""
    namespace: str = ""
    name: str = ""

    def matching(self) -> Q:
        """Return the condition over rows that carry `pod_uid`, `namespace` and `pod_name`."""
        if self.uid:
            return Q(cluster_id=self.cluster_id, pod_uid=self.uid)
        return Q(cluster_id=self.cluster_id, namespace=self.namespace, pod_name=self.name)


@dataclass(frozen=True)
class PodRows:
    """Every row about some pod in the queried hours."""

    queued: Sequence[QueuedPod]
    allocations: Sequence[PodAllocation]
    windows: Sequence[MeteringWindow]
    records: Sequence[UsageRecord]
    exceptions: Sequence[MeteringException]

    @property
    def namespaces(self) -> frozenset[str]:
        """Return the namespaces the rows are about."""
        named = [row.namespace for row in self.queued]
        named += [row.namespace for row in self.allocations]
        named += [row.namespace for row in self.records]
        named += [row.namespace for row in self.exceptions]
        return frozenset(named)


def cluster_id_of(slug: str) -> UUID | None:
    """Return the id of the cluster of a short name, or None without one."""
    return Cluster.objects.filter(slug=slug).values_list("pk", flat=True).first()


def pod_rows(pod: PodName, *, begin_at: datetime, end_at: datetime) -> PodRows:
    """Return what every ledger holds of a pod in the hours of [begin_at, end_at).

    Five statements, however many hours and rows there are.
    """
    hours = Q(window_start__gte=begin_at, window_start__lt=end_at)
    # Names are used again, by other tenants too: only what touches these hours is meant.
    waited = Q(gone_at__isnull=True) | Q(gone_at__gt=begin_at)
    held = Q(end_at__isnull=True) | Q(end_at__gt=begin_at)
    queued = list(
        QueuedPod.objects.filter(waited, pod.matching(), created_at__lt=end_at).order_by(
            "-created_at"
        )[:PODS_MAX]
    )
    allocations = list(
        PodAllocation.objects.filter(held, pod.matching(), begin_at__lt=end_at)
        .select_related("label_set")
        .order_by("-begin_at", "resource")[:PODS_MAX]
    )
    uids = {pod.uid, *(row.pod_uid for row in queued), *(row.pod_uid for row in allocations)} - {""}
    windows = (
        MeteringWindow.objects.filter(
            cluster_id=pod.cluster_id, start_at__gte=begin_at, start_at__lt=end_at
        )
        .select_related("cluster")
        .order_by("start_at")[:HOURS_MAX]
    )
    records = UsageRecord.objects.filter(hours, pod.matching()).order_by(
        "window_start", "resource", "revision"
    )
    return PodRows(
        queued=queued,
        allocations=allocations,
        windows=list(windows),
        records=list(records),
        exceptions=_exceptions(pod, hours, uids=uids),
    )


def _exceptions(pod: PodName, hours: Q, *, uids: set[str]) -> list[MeteringException]:
    """Return causes about the pod that are open or that a person resolved.

    Their subject begins with its uid.
    """
    about = Q(details__pod=pod.name, namespace=pod.namespace) if pod.name else Q(pk__in=[])
    for uid in sorted(uids):
        about |= Q(subject__startswith=f"{uid} ")
    known = Q(state=ExceptionState.OPEN) | Q(resolved_by__isnull=False)
    rows = MeteringException.objects.filter(hours, about, known, cluster_id=pod.cluster_id)
    return list(rows.order_by("window_start", "kind", "subject"))


def window_fact(window: MeteringWindow) -> WindowFact:
    """Return the facts of a window whose cluster is loaded."""
    return WindowFact(
        id=window.pk,
        cluster=window.cluster.slug,
        start_at=window.start_at.astimezone(UTC),
        state=WindowState(window.state),
        sources=tuple(window.sources),
        coverage=_share(window.coverage),
        watch_coverage=_share(window.watch_coverage),
        unobserved_seconds=window.unobserved_seconds,
        hidden_unit_seconds_max=window.hidden_unit_seconds_max,
        as_of=window.as_of,
        sealed_at=window.sealed_at,
        record_digest=window.record_digest,
        evidence=tuple(_query_fact(item) for item in window.evidence),
        reconciliation=window.reconciliation,
    )


def held_fact(row: PodAllocation) -> HeldFact:
    """Return the facts of an allocation."""
    return HeldFact(
        resource=row.resource,
        units=row.units,
        size=row.size,
        price_group=row.price_group,
        sharing_mode=row.sharing_mode,
        share=f"{row.share_numerator}/{row.share_denominator}",
        source=row.source,
        node=row.node,
        node_labels=row.node_labels,
        catalogue_version=row.catalogue_version,
        begin_at=row.begin_at,
        end_at=row.end_at,
        end_kind=row.end_kind,
        end_slack_seconds=row.end_slack_seconds,
    )


def allocation_of(record: UsageRecord) -> PodAllocation | None:
    """Return what the record's pod held, or the claim that the record is a part of."""
    uid, resource = allocation_key(uid=record.pod_uid, resource=record.resource)
    held = PodAllocation.objects.select_related("label_set")
    return held.filter(cluster_id=record.cluster_id, pod_uid=uid, resource=resource).first()


def window_of(record: UsageRecord) -> MeteringWindow:
    """Return a record's window, with its cluster."""
    return MeteringWindow.objects.select_related("cluster").get(pk=record.window_id)


def stored_catalogues(versions: Iterable[int | None]) -> Mapping[int | None, Catalogue]:
    """Return some versions of the catalogue by number, in one statement."""
    stored = CatalogueVersion.objects.filter(version__in={one for one in versions if one})
    return {
        one.version: Catalogue(one.version, tuple(rule_from_json(rule) for rule in one.rules))
        for one in stored
    }


def overlaps(row: PodAllocation, *, begin_at: datetime) -> bool:
    """Whether an allocation held anything in the hour that begins at a time."""
    until = begin_at + timedelta(hours=1)
    return row.begin_at < until and (row.end_at is None or row.end_at > begin_at)


def _share(value: object) -> str:
    return "" if value is None else str(value)


def _query_fact(item: dict[str, Any]) -> QueryFact:
    return QueryFact(
        query=item["query"], at=item["at"], sha256=item["sha256"], samples=item["samples"]
    )


@dataclass(frozen=True)
class HourVerdict:
    """Why a pod was or was not charged in one hour, and what the ledgers hold of it.

    Attributes:
        unit_seconds: What is recorded of it, all resources and corrections together.
        held_unit_seconds: What open exceptions hold back.
    """

    start_at: datetime
    verdict: ChargeVerdict
    sentence: str
    unit_seconds: int
    held_unit_seconds: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class PodExplanation:
    """One pod, hour by hour; `steps` are about the pod as a whole."""

    pod: PodName
    steps: tuple[Step, ...]
    hours: tuple[HourVerdict, ...]
    namespaces: frozenset[str]


def explain_record(record: UsageRecord) -> tuple[Step, ...]:
    """Return the way back from a usage record: measure, allocation, rule, hour, evidence."""
    allocation = allocation_of(record)
    held = _held([allocation] if allocation else [])
    return (_measure(record), *held, *window_steps(window_fact(window_of(record))))


def explain_pod(pod: PodName, *, begin_at: datetime, end_at: datetime) -> PodExplanation:
    """Return why a pod was or was not charged in each hour of [begin_at, end_at).

    Args:
        pod: Which one.
        begin_at: In the first queried hour.
        end_at: After the last one.
    """
    require_rows(ArchivedTable.USAGE, begin_at=begin_at, end_at=end_at)
    rows = pod_rows(pod, begin_at=begin_at, end_at=end_at)
    return PodExplanation(
        pod=pod,
        steps=tuple(_life(rows)),
        hours=tuple(
            _hour(rows, start_at=start_at) for start_at in whole_hours(begin_at, until=end_at)
        ),
        namespaces=rows.namespaces,
    )


def _measure(record: UsageRecord) -> Step:
    return Step(
        "The record",
        f"{record.namespace}/{record.pod_name} used {record.unit_seconds} unit-seconds: "
        f"{record.units} x {record.seconds} s.",
        {
            "record": record.pk,
            "revision": record.revision,
            "pod_uid": record.pod_uid,
            "resource": record.resource,
            "size": record.size,
            "price_group": record.price_group,
            "owner": record.owner or "unattributed",
            "split_among": record.split_among,
            "end_kind": record.end_kind,
            "slack_seconds": record.slack_seconds,
        },
    )


def _life(rows: PodRows) -> Iterator[Step]:
    for queued in rows.queued:
        yield Step(
            "The pod",
            f"{queued.namespace}/{queued.pod_name}, uid {queued.pod_uid}.",
            {
                "created_at": _time(queued.created_at),
                "bound_at": _time(queued.bound_at),
                "gone_at": _time(queued.gone_at),
                "reason": queued.reason,
                **{f"asks.{name}": _text(units) for name, units in queued.requests.items()},
            },
        )
    yield from _held(rows.allocations)


def _held(allocations: Sequence[PodAllocation]) -> Iterator[Step]:
    catalogues = stored_catalogues(row.catalogue_version for row in allocations)
    for row in allocations:
        yield held_step(held_fact(row), catalogue=catalogues.get(row.catalogue_version))


def _hour(rows: PodRows, *, start_at: datetime) -> HourVerdict:
    window = next((one for one in rows.windows if one.start_at == start_at), None)
    records = [row for row in rows.records if row.window_start == start_at]
    exceptions = [row for row in rows.exceptions if row.window_start == start_at]
    still_open = [row for row in exceptions if row.state == ExceptionState.OPEN]
    verdict = verdict_of(
        PodHour(
            is_known=bool(rows.queued or rows.allocations),
            is_bound=bool(rows.allocations) or any(one.bound_at for one in rows.queued),
            has_allocation=bool(rows.allocations),
            overlaps=any(overlaps(row, begin_at=start_at) for row in rows.allocations),
            window_state=None if window is None else WindowState(window.state),
            is_waived=_is_waived(window),
            records=len(records),
            open_exceptions=len(still_open),
            is_settled=len(exceptions) > len(still_open),
        )
    )
    causes = (
        Step(
            row.get_kind_display(),
            f"{row.summary} {row.resolution or row.remedy}",
            {"exception": row.pk, "held_unit_seconds": row.held_unit_seconds},
        )
        for row in exceptions
    )
    return HourVerdict(
        start_at=start_at,
        verdict=verdict,
        sentence=VERDICT_SENTENCES[verdict],
        unit_seconds=sum(row.unit_seconds for row in records),
        held_unit_seconds=sum(row.held_unit_seconds for row in still_open),
        steps=(*(_measure(row) for row in records), *causes),
    )


def _is_waived(window: MeteringWindow | None) -> bool:
    return window is not None and window.gap_policy == GapPolicy.WAIVE


def _time(at: datetime | None) -> str:
    return "" if at is None else at.isoformat().replace("+00:00", "Z")


def _text(value: object) -> str | int:
    return value if isinstance(value, int) else str(value)
