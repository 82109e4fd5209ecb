"""What a decision on chosen hours would do, before it is made."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Count, QuerySet

from metering.domain.collection.hour_decisions import (
    EFFECTS,
    HourResult,
    PreviewedHour,
    Shown,
    preview_hour,
)
from metering.domain.collection.windows import (
    DEFAULT_POLICY,
    WINDOW,
    GapPolicy,
    MeteringPolicy,
    WindowState,
)
from metering.domain.corrections.exceptions import BLOCKING_KINDS
from metering.models import ExceptionState, MeteringException, MeteringWindow
from tenants.selectors.clock import database_now

DECISIONS: Final = (GapPolicy.ACCEPT, GapPolicy.LAST_KNOWN, GapPolicy.HOLD, GapPolicy.WAIVE)
"""In the order in which they are offered."""


@dataclass(frozen=True)
class DecisionPreview:
    """What a decision would do.

    Attributes:
        known: What is shown of each chosen hour, by its id, oldest first.
        results: How many of them by what the decision would do to them.
        causes: How many of those it applies to by the cause that is open against them.
        first_at: The oldest hour that it applies to; None when there is none.
        last_at: The youngest one.
        billed_unit_seconds: By size, what accepting these hours bills, where that is known.
        held_unit_seconds: By cause, what it keeps in exceptions, likewise.
        unknown: How many of these hours nothing is known of.
        unobserved: How many of them no scrape observed.
        effect: What becomes of them.
        digest: Names all of this; a decision that carries it is refused once that has changed.
    """

    known: Mapping[int, PreviewedHour]
    results: Mapping[HourResult, int]
    causes: Mapping[str, int]
    first_at: datetime | None
    last_at: datetime | None
    billed_unit_seconds: Mapping[str, int]
    held_unit_seconds: Mapping[str, int]
    unknown: int
    unobserved: int
    effect: str
    digest: str

    @property
    def hours(self) -> int:
        """Return how many hours were chosen."""
        return len(self.known)

    @property
    def decided(self) -> int:
        """Return how many hours the decision applies to."""
        return self.results.get(HourResult.DECIDED, 0)


def hours_between(
    cluster_id: UUID, *, begin_at: datetime, end_at: datetime
) -> QuerySet[MeteringWindow]:
    """Return a cluster's windows that begin in [begin_at, end_at), oldest first."""
    return MeteringWindow.objects.filter(
        cluster_id=cluster_id, start_at__gte=begin_at, start_at__lt=end_at
    ).order_by("start_at")


def decisions_for(
    window: MeteringWindow, *, at: datetime, policy: MeteringPolicy = DEFAULT_POLICY
) -> tuple[GapPolicy, ...]:
    """Return the decisions that apply to an hour now; none of a sealed one."""
    patience = timedelta(seconds=policy.gap_patience_seconds)
    overdue_before = min(at, database_now()) - WINDOW - patience
    return tuple(
        decision
        for decision in DECISIONS
        if preview_hour(
            WindowState(window.state),
            in_force=window.gap_policy,
            decision=decision,
            is_overdue=window.start_at <= overdue_before,
            shown=window.shown,
        ).result
        is HourResult.DECIDED
    )


def preview_decision(
    windows: QuerySet[MeteringWindow],
    *,
    decision: GapPolicy,
    at: datetime,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> DecisionPreview:
    """Return what a decision would do to hours, in three statements."""
    overdue_before = (
        min(at, database_now()) - WINDOW - timedelta(seconds=policy.gap_patience_seconds)
    )
    rows = windows.order_by("start_at", "id").values_list(
        "id", "start_at", "state", "gap_policy", "shown"
    )
    results: Counter[HourResult] = Counter()
    chosen: list[tuple[int, datetime]] = []
    known: dict[int, PreviewedHour] = {}
    figures: list[Shown] = []
    for window_id, start_at, state, in_force, shown in rows:
        hour = preview_hour(
            WindowState(state),
            in_force=in_force,
            decision=decision,
            is_overdue=start_at <= overdue_before,
            shown=shown,
        )
        results[hour.result] += 1
        known[window_id] = hour
        if hour.result is HourResult.DECIDED:
            chosen.append((window_id, start_at))
            figures.append(Shown.from_json(shown))
    values = [(window_id, *astuple(hour)) for window_id, hour in known.items()]
    text = json.dumps([decision.value, values], separators=(",", ":"))
    return DecisionPreview(
        known=known,
        results=results,
        causes=_causes([window_id for window_id, _ in chosen]),
        first_at=chosen[0][1] if chosen else None,
        last_at=chosen[-1][1] if chosen else None,
        billed_unit_seconds=_sum(one.billed_unit_seconds for one in figures),
        held_unit_seconds=_sum(one.held_unit_seconds for one in figures),
        unknown=sum(one.unit_seconds is None for one in figures),
        unobserved=sum(one.observed_ticks == 0 for one in figures),
        effect=EFFECTS[decision],
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )


def _sum(parts: Iterable[Mapping[str, int] | None]) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for part in parts:
        totals.update(part or {})
    return dict(sorted(totals.items()))


def _causes(window_ids: list[int]) -> dict[str, int]:
    rows = (
        MeteringException.objects.filter(
            window_id__in=window_ids,
            state=ExceptionState.OPEN,
            kind__in=[kind.value for kind in BLOCKING_KINDS],
        )
        .order_by("kind")
        .values_list("kind")
        .annotate(hours=Count("window_id", distinct=True))
    )
    return dict(rows)
