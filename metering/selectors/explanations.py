"""Explanations, put together: of one usage record, and of one pod hour by hour."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from metering.domain.explaining import (
    VERDICT_SENTENCES,
    PodHour,
    Step,
    Verdict,
    held_step,
    verdict_of,
    window_steps,
)
from metering.domain.policy import GapPolicy
from metering.domain.window import whole_hours
from metering.domain.window_state import WindowState
from metering.models import MeteringWindow, PodAllocation, UsageRecord
from metering.selectors.explaining import (
    PodName,
    PodRows,
    allocation_of,
    held_fact,
    overlaps,
    pod_rows,
    stored_catalogues,
    window_fact,
    window_of,
)


@dataclass(frozen=True)
class HourVerdict:
    """Why a pod was or was not charged in one hour, and what the ledgers hold of it.

    Attributes:
        unit_seconds: What is recorded of it, all resources and corrections together.
        held_unit_seconds: What open exceptions hold back.
    """

    start_at: datetime
    verdict: Verdict
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
        begin_at: In the first hour asked about.
        end_at: After the last one.
    """
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
    verdict = verdict_of(
        PodHour(
            is_known=bool(rows.queued or rows.allocations),
            is_bound=bool(rows.allocations) or any(one.bound_at for one in rows.queued),
            has_allocation=bool(rows.allocations),
            overlaps=any(overlaps(row, begin_at=start_at) for row in rows.allocations),
            window_state=None if window is None else WindowState(window.state),
            is_waived=_is_waived(window),
            records=len(records),
            open_exceptions=len(exceptions),
        )
    )
    causes = (
        Step(
            row.get_kind_display(),
            f"{row.summary} {row.remedy}",
            {"exception": row.pk, "held_unit_seconds": row.held_unit_seconds},
        )
        for row in exceptions
    )
    return HourVerdict(
        start_at=start_at,
        verdict=verdict,
        sentence=VERDICT_SENTENCES[verdict],
        unit_seconds=sum(row.unit_seconds for row in records),
        held_unit_seconds=sum(row.held_unit_seconds for row in exceptions),
        steps=(*(_measure(row) for row in records), *causes),
    )


def _is_waived(window: MeteringWindow | None) -> bool:
    return window is not None and window.gap_policy == GapPolicy.WAIVE


def _time(at: datetime | None) -> str:
    return "" if at is None else at.isoformat().replace("+00:00", "Z")


def _text(value: object) -> str | int:
    return value if isinstance(value, int) else str(value)
