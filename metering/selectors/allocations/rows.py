"""Rows of the allocation ledger; what of them is settled is read once for the hours of a backlog.

Triggers refuse any change of what a pod held once it has a size, and of a usage fact (ADR 0112).
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec
from django.db import connection

from metering.domain.allocations.timeline import EndKind, Life, whole_second
from metering.domain.catalogue.units import sanitise
from metering.domain.collection.parts import WHOLE, Part
from metering.selectors.allocations.parts import in_part, part_values
from metering.selectors.collection.usage_facts import FactId
from metering.selectors.text_arrays import text_array
from tenants.selectors.clock import read_moment


class AllocationFact(msgspec.Struct, frozen=True):
    """What a pod holds of one resource, as settled once and for all; see models.PodAllocation.

    Attributes:
        resource: Kubernetes' spelling.
        owner: The user in the pod's label, or "".
    """

    pod_uid: str
    resource: str
    namespace: str
    pod_name: str
    node: str
    owner: str
    units: int
    size: str
    price_group: str
    sharing_mode: str
    product: str
    share_numerator: int
    share_denominator: int
    catalogue_version: int
    begin_at: datetime


FACT_COLUMNS = AllocationFact.__struct_fields__

AllocationKey = tuple[str, str]
"""Pod uid and sanitised resource name."""


class LedgerRow(msgspec.Struct, frozen=True):
    """One row of the ledger as it stands now.

    Attributes:
        fact: What is settled; an empty size and catalogue version 0 mean nothing is yet.
        life: From its bind to its end as far as known; the slack reaches forward.
        is_from_api: Whether the cluster's API reported it, not only Prometheus.
        node_labels: They determine the size; only read while there is none.
        priority_class: As it was at the bind; "" without one.
    """

    id: int
    fact: AllocationFact
    life: Life
    last_seen_at: datetime
    is_from_api: bool
    node_labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    priority_class: str = ""

    @property
    def key(self) -> AllocationKey:
        """Return its unique key in the cluster."""
        return self.fact.pod_uid, sanitise(self.fact.resource)


class StoredFact(msgspec.Struct, frozen=True):
    """A usage fact that is stored, and what it was stored of."""

    id: FactId
    fact: AllocationFact
    organization_id: UUID
    project_id: UUID
    owner: str


@dataclass
class SettledFacts:
    """What was settled by transactions that are committed.

    Attributes:
        rows: Rows of the ledger that have a size, by id, without what of them can change.
        facts: Usage facts, by pod uid and resource.
        is_shared: Whether there are several hours; for one alone nothing is kept.
    """

    is_shared: bool = False
    rows: dict[int, LedgerRow] = field(default_factory=dict)
    facts: dict[AllocationKey, StoredFact] = field(default_factory=dict)
    _read_rows: dict[int, LedgerRow] = field(default_factory=dict)
    _read_facts: dict[AllocationKey, StoredFact] = field(default_factory=dict)

    @contextmanager
    def kept_after(self) -> Iterator[None]:
        """Keep what a block reads; nothing of it when the block fails, and is rolled back."""
        self._read_rows.clear()
        self._read_facts.clear()
        yield
        self.rows.update(self._read_rows)
        self.facts.update(self._read_facts)

    def note_row(self, row: LedgerRow) -> None:
        """Note a row of the ledger, if it is settled."""
        if self.is_shared and row.fact.size:
            self._read_rows[row.id] = row

    def note_fact(self, stored: StoredFact) -> None:
        """Note a usage fact."""
        if self.is_shared:
            self._read_facts[stored.fact.pod_uid, stored.fact.resource] = stored


# A row that Prometheus opened counts as the API's too, once the watch has observed the pod; its
# bind is the API's.
_CHANGING = """
a.id, a.end_at, a.end_kind, a.end_slack_seconds, a.last_seen_at::text,
       CASE WHEN a.source <> 'kubernetes' THEN (
         SELECT q.bound_at FROM metering_queuedpod q
          WHERE q.cluster_id = a.cluster_id AND q.pod_uid = a.pod_uid) END"""
_SETTLED = """
pod_uid, resource, namespace, pod_name, node, owner, units, size, price_group, sharing_mode,
       product, share_numerator, share_denominator, COALESCE(catalogue_version, 0), begin_at::text,
       source, priority_class,
       CASE WHEN size <> '' OR label_set_id IS NULL THEN '{}' ELSE (
         SELECT l.labels FROM metering_nodelabelset l WHERE l.id = label_set_id) END"""
# A row whose end is a lower bound may still have lasted into the hour.
_OF_HOUR = f"""
 WHERE cluster_id = %(cluster_id)s
   AND (pod_uid = ANY(%(pod_uids)s::text[])
        OR (begin_at < %(end_at)s AND end_at IS NULL)
        OR (begin_at < %(end_at)s AND end_at > %(start_at)s)
        OR (begin_at < %(end_at)s AND end_kind = 'vanished_in_gap'
            AND end_at > %(start_at)s - interval '2 days'
            AND end_at + make_interval(secs => end_slack_seconds) > %(start_at)s))
   AND {in_part("pod_uid")}"""
_ROWS = f"""
SELECT {_CHANGING}, {_SETTLED} FROM metering_podallocation a {_OF_HOUR} ORDER BY pod_uid, resource
"""  # noqa: S608 - Constants.
_ROWS_AGAIN = f"SELECT {_CHANGING} FROM metering_podallocation a {_OF_HOUR}"  # noqa: S608 - Constants.
_ROWS_BY_ID = (
    f"SELECT {_CHANGING}, {_SETTLED} FROM metering_podallocation a WHERE id = ANY(%(ids)s)"  # noqa: S608 - Constants.
)
_CHANGING_COUNT: Final = 6
_END_KINDS: Final = {kind.value: kind for kind in EndKind}
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_NO_LIFE: Final = Life(_NEVER, None, EndKind.OPEN)


def ledger_rows(
    cluster_id: UUID,
    *,
    start_at: datetime,
    end_at: datetime,
    pod_uids: Collection[str],
    part: Part = WHOLE,
    settled: SettledFacts | None = None,
) -> Mapping[AllocationKey, LedgerRow]:
    """Return the rows of some pods, and of all that may have held something in [start_at, end_at).

    One statement, however many there are; only rows of the part. Of rows that are settled only what
    can change is read, and a second statement reads the others.

    Args:
        cluster_id: The cluster.
        start_at: Begin of the hour, included.
        end_at: Its end, excluded.
        pod_uids: Of the pods.
        part: Of which pods.
        settled: Rows that were read for the hours before; those read now are noted there.
    """
    settled = settled or SettledFacts()
    values = {
        "cluster_id": cluster_id,
        "start_at": start_at,
        "end_at": end_at,
        "pod_uids": text_array(pod_uids),
        **part_values(part),
    }
    with connection.cursor() as cursor:
        if not settled.rows:
            cursor.execute(_ROWS, values)
            return _by_key(_new_rows(cursor.fetchall(), settled=settled))
        cursor.execute(_ROWS_AGAIN, values)
        changing = cursor.fetchall()
        new = [row[0] for row in changing if row[0] not in settled.rows]
        rows = [
            _with_changes(settled.rows[row[0]], row) for row in changing if row[0] in settled.rows
        ]
        if new:
            cursor.execute(_ROWS_BY_ID, {"ids": new})
            rows += _new_rows(cursor.fetchall(), settled=settled)
        return _by_key(rows)


def _by_key(rows: Iterable[LedgerRow]) -> Mapping[AllocationKey, LedgerRow]:
    return {row.key: row for row in rows}


def _new_rows(stored: Sequence[tuple[Any, ...]], *, settled: SettledFacts) -> list[LedgerRow]:
    # The pods of a node share one mapping, as `Sizer` expects.
    labels = {text: json.loads(text) for text in {values[-1] for values in stored}}
    rows = []
    for values in stored:
        row = _settled_row(values, labels=labels[values[-1]])
        settled.note_row(row)
        rows.append(_with_changes(row, values[:_CHANGING_COUNT]))
    return rows


def _settled_row(values: tuple[Any, ...], *, labels: Mapping[str, str]) -> LedgerRow:
    rest = values[_CHANGING_COUNT:]
    begin, source, priority_class, _ = rest[len(FACT_COLUMNS) - 1 :]
    return LedgerRow(
        id=values[0],
        fact=AllocationFact(*(*rest[: len(FACT_COLUMNS) - 1], read_moment(begin))),
        life=_NO_LIFE,
        last_seen_at=_NEVER,
        is_from_api=source == "kubernetes",
        node_labels=labels,
        priority_class=priority_class,
    )


def _with_changes(row: LedgerRow, changing: tuple[Any, ...]) -> LedgerRow:
    """Return a row with what of it can change, by position: there are ten thousand an hour."""
    _, end_at, end_kind, slack_seconds, last_seen, bound_at = changing
    return LedgerRow(
        row.id,
        row.fact,
        Life(
            whole_second(bound_at or row.fact.begin_at),
            None if end_at is None else whole_second(end_at),
            _END_KINDS[end_kind],
            slack_seconds,
        ),
        read_moment(last_seen),
        row.is_from_api or bound_at is not None,
        row.node_labels,
        row.priority_class,
    )
