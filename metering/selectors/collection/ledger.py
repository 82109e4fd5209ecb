"""One window from the ledger of a cluster's API, in a constant number of statements."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_DOWN, Decimal
from uuid import UUID

from metering.domain.allocations.pod_life import CLAIM_PREFIX
from metering.domain.allocations.timeline import EndKind, Life
from metering.domain.allocations.watch_coverage import blind_stretches, covered_seconds
from metering.domain.collection.accounts import OpenInterval
from metering.domain.collection.reconciliation import Accepted, Side
from metering.domain.collection.windows import seconds_between
from metering.models import NodeRecord, ReconciliationDecision
from metering.selectors.allocations.ledger import AllocationKey, LedgerRow, ledger_rows
from metering.selectors.allocations.watch import (
    ClaimUse,
    RefusedPod,
    claim_uses,
    refused_pods,
    watch_spans,
)

COVERAGE_STEP = Decimal("0.00001")


@dataclass(frozen=True)
class NodeFact:
    """What a node offered from one change to the next; raw names and labels."""

    node: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    begin_at: datetime
    end_at: datetime | None


@dataclass(frozen=True)
class WatchCoverage:
    """Coverage of the watch around one window.

    Attributes:
        spans: When it observed, from the window's start on, in order.
        until_at: Its last heartbeat that is known; None when there was none.
        ratio: Share of the window, 0 to 1, rounded down to five digits.
        is_blind_at_end: Whether there was no heartbeat at or after the window's end.
    """

    spans: tuple[OpenInterval, ...] = ()
    until_at: datetime | None = None
    ratio: Decimal = Decimal(0)
    is_blind_at_end: bool = True


@dataclass(frozen=True)
class WindowLedger:
    """Everything in the database about what was held in one window.

    Attributes:
        rows: By pod uid and sanitised resource.
        consumers: By claim uid, in the order of their begin.
        refused: Pods that the API reported with invalid fields.
        decisions: The evidence a person accepted, by pod uid and sanitised resource.
        decided_namespaces: The namespaces of those pods, likewise.
    """

    rows: Mapping[AllocationKey, LedgerRow] = field(default_factory=dict)
    consumers: Mapping[str, Sequence[ClaimUse]] = field(default_factory=dict)
    nodes: Sequence[NodeFact] = ()
    refused: Sequence[RefusedPod] = ()
    decisions: Mapping[AllocationKey, Accepted] = field(default_factory=dict)
    decided_namespaces: Mapping[AllocationKey, str] = field(default_factory=dict)
    watch: WatchCoverage = field(default_factory=WatchCoverage)


def watch_coverage(
    cluster_id: UUID, *, start_at: datetime, end_at: datetime, until_at: datetime
) -> WatchCoverage:
    """Return the coverage of a cluster's watch from a window's start to a later moment."""
    known = watch_spans(cluster_id, start_at, until_at)
    blind = blind_stretches(known, begin_at=start_at, end_at=until_at)
    begins = [start_at, *(stretch.end_at for stretch in blind)]
    ends = [*(stretch.begin_at for stretch in blind), until_at]
    covered = covered_seconds(known, begin_at=start_at, end_at=end_at)
    ratio = Decimal(covered) / Decimal(seconds_between(start_at, end_at))
    last_beat_at = max((span.until_at for span in known), default=None)
    return WatchCoverage(
        spans=tuple(
            OpenInterval(begin, end) for begin, end in zip(begins, ends, strict=True) if begin < end
        ),
        until_at=last_beat_at,
        ratio=ratio.quantize(COVERAGE_STEP, rounding=ROUND_DOWN),
        is_blind_at_end=last_beat_at is None or last_beat_at < end_at,
    )


def window_ledger(
    cluster_id: UUID,
    *,
    start_at: datetime,
    end_at: datetime,
    until_at: datetime,
    pod_uids: Collection[str],
    is_watched: bool,
) -> WindowLedger:
    """Return what the database knows of [start_at, end_at), of what some pods hold besides.

    Args:
        cluster_id: The cluster.
        start_at: Begin, included.
        end_at: End, excluded.
        until_at: How far another source looked, at least the end.
        pod_uids: Pods that another source saw.
        is_watched: Whether there is a watch; without one only allocations are read.
    """
    if not is_watched:
        return WindowLedger(
            rows=ledger_rows(cluster_id, start_at=start_at, end_at=end_at, pod_uids=pod_uids)
        )
    decided = _decisions(cluster_id, start_at=start_at)
    uids = sorted({*pod_uids, *(uid for uid, _ in decided)})
    rows = ledger_rows(cluster_id, start_at=start_at, end_at=end_at, pod_uids=uids)
    return WindowLedger(
        rows=rows,
        consumers=_consumers(cluster_id, rows=rows),
        nodes=_nodes(cluster_id, start_at=start_at, end_at=end_at),
        refused=refused_pods(cluster_id, start_at, end_at),
        decisions={key: _accepted(row) for key, row in decided.items()},
        decided_namespaces={key: row.namespace for key, row in decided.items()},
        watch=watch_coverage(cluster_id, start_at=start_at, end_at=end_at, until_at=until_at),
    )


def _consumers(
    cluster_id: UUID, *, rows: Mapping[AllocationKey, LedgerRow]
) -> Mapping[str, Sequence[ClaimUse]]:
    claims = {
        row.fact.pod_uid for row in rows.values() if row.fact.resource.startswith(CLAIM_PREFIX)
    }
    found: dict[str, list[ClaimUse]] = defaultdict(list)
    for use in claim_uses(cluster_id, claim_uids=sorted(claims)):
        found[use.claim_uid].append(use)
    return found


def _nodes(cluster_id: UUID, *, start_at: datetime, end_at: datetime) -> tuple[NodeFact, ...]:
    rows = (
        NodeRecord.objects.filter(cluster_id=cluster_id, begin_at__lt=end_at)
        .exclude(end_at__lte=start_at)
        .order_by("node", "begin_at")
        .values_list("node", "labels", "allocatable", "begin_at", "end_at")
    )
    return tuple(NodeFact(*values) for values in rows)


def _decisions(
    cluster_id: UUID, *, start_at: datetime
) -> Mapping[AllocationKey, ReconciliationDecision]:
    rows = ReconciliationDecision.objects.filter(cluster_id=cluster_id, window_start=start_at)
    return {(row.pod_uid, row.resource): row for row in rows.order_by("id")}


def _accepted(row: ReconciliationDecision) -> Accepted:
    life = None
    if row.begin_at is not None:
        life = Life(row.begin_at, row.end_at, EndKind(row.known_as), row.slack_seconds)
    return Accepted(Side(row.side), life, row.units)
