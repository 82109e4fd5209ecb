"""Decisions on whole hours: which hours a person may decide on, and what a decision holds for."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from metering.domain.collection.windows import GapPolicy, WindowState
from metering.domain.errors import (
    WindowEndUnobservedError,
    WindowMeteredError,
    WindowNotOverdueError,
    WindowStateError,
)
from tenants.domain.errors import ConflictError

NEEDS_REVIEW: Final = frozenset({WindowState.GAP, WindowState.QUARANTINED})
"""States in which an hour waits for a decision, however old it is."""


UNFINISHED: Final = frozenset({WindowState.OPEN, WindowState.COLLECTING, WindowState.COLLECTED})
"""States that are decided on once the hour is over its patience."""


END_UNOBSERVED: Final = "end_unobserved"
"""In what is shown of an hour: nothing was observed after it, as far ahead as it is queried."""


class HourResult(StrEnum):
    """What a decision does to one hour."""

    DECIDED = "decided"
    ALREADY_DECIDED = "already_decided"
    SETTLED = "settled"
    """It is sealed, or adds up and is about to be."""
    NOT_OVERDUE = "not_overdue"
    METERED = "metered"
    """It is metered and waits for an open exception alone, so that nothing is to be estimated."""
    END_UNOBSERVED = "end_unobserved"
    """Nothing was observed after it, as far ahead as it is queried, so it cannot be accepted."""
    CHANGED = "changed"
    """Something else is known of it than was shown; it was left alone."""


@dataclass(frozen=True)
class PreviewedHour:
    """What a preview shows of one hour: a decision made on it holds for nothing else.

    Attributes:
        result: What the decision would do to it.
        digest: Of what is shown of the hour; "" for nothing.
        is_metered: Whether it is metered and waits for an open exception alone.
    """

    result: HourResult
    digest: str
    is_metered: bool


EFFECTS: Final[Mapping[GapPolicy, str]] = {
    GapPolicy.ACCEPT: (
        "They are metered again and billed by what was observed. An hour of which less is observed "
        "then, or nothing was observed so far and too little is then, returns for a new decision. "
        "An hour that is metered, but over its nodes' capacity, is billed as it is."
    ),
    GapPolicy.WAIVE: "They are sealed with no usage and stay so; nothing is ever billed for them.",
    GapPolicy.LAST_KNOWN: (
        "They are metered again, and billed in their holes by what was known before and after. "
        "An hour of which less is observed then, or nothing was observed so far and too little is "
        "then, returns for a new decision."
    ),
    GapPolicy.HOLD: (
        "They are metered again and sealed; all their usage is kept off the bill, in exceptions. "
        "An hour of which less is observed then, or nothing was observed so far and too little is "
        "then, returns for a new decision."
    ),
}
"""What a decision does to the hours that it applies to."""


def result_of(
    state: WindowState,
    *,
    in_force: str,
    decision: GapPolicy,
    is_overdue: bool,
    is_end_unobserved: bool = False,
) -> HourResult:
    """Return what a decision does to an hour.

    Args:
        state: How far its metering has come.
        in_force: The decision that holds already; "" for none.
        decision: The new one.
        is_overdue: Whether the hour is over its patience.
        is_end_unobserved: Whether nothing is observed after it, however far ahead it is queried.
    """
    if state in NEEDS_REVIEW and decision is GapPolicy.ACCEPT and is_end_unobserved:
        return HourResult.END_UNOBSERVED
    if state is WindowState.COLLECTED and is_overdue:
        is_estimate = decision is GapPolicy.LAST_KNOWN
        return HourResult.METERED if is_estimate else HourResult.DECIDED
    if in_force == decision.value and state not in NEEDS_REVIEW:
        return HourResult.ALREADY_DECIDED
    if state in NEEDS_REVIEW or (state in UNFINISHED and is_overdue):
        return HourResult.DECIDED
    if state in UNFINISHED:
        return HourResult.NOT_OVERDUE
    return HourResult.SETTLED


def preview_hour(
    state: WindowState,
    *,
    in_force: str,
    decision: GapPolicy,
    is_overdue: bool,
    shown: Mapping[str, Any],
) -> PreviewedHour:
    """Return what a preview shows of an hour; see `result_of`.

    Args:
        state: How far its metering has come.
        in_force: The decision that holds already; "" for none.
        decision: The new one.
        is_overdue: Whether the hour is over its patience.
        shown: What its last incomplete observation had, as the window stores it.
    """
    return PreviewedHour(
        result=result_of(
            state,
            in_force=in_force,
            decision=decision,
            is_overdue=is_overdue,
            is_end_unobserved=bool(shown.get(END_UNOBSERVED)),
        ),
        digest=shown.get("digest", ""),
        is_metered=state is WindowState.COLLECTED,
    )


def refusal_of(result: HourResult, *, state: str, patience_seconds: int) -> ConflictError | None:
    """Return why a decision on one hour is refused; None when it is not.

    Args:
        result: What the decision does to it.
        state: How far its metering has come.
        patience_seconds: From which age an hour may be decided on.
    """
    if result is HourResult.NOT_OVERDUE:
        return WindowNotOverdueError(
            "The hour is tried again by itself; it is not over its patience.",
            facts={"state": state, "patience_seconds": patience_seconds},
        )
    if result is HourResult.METERED:
        return WindowMeteredError("The hour is metered, and waits for an open exception alone.")
    if result is HourResult.END_UNOBSERVED:
        return WindowEndUnobservedError("Nothing was observed after the hour.")
    if result is HourResult.SETTLED:
        return WindowStateError(
            "The hour adds up and is about to be sealed.", facts={"state": state}
        )
    return None


@dataclass(frozen=True)
class Shown:
    """What was known of an hour when a person reviewed it.

    Attributes:
        observed_ticks: Successful scrapes; None without a source of scrapes.
        unobserved_seconds: How long nothing was observed; None where that is not known.
        watch_coverage: Share of the hour that the watch observed, 0 to 1; None without a watch.
        pods: Number of pods with observed usage; None where unknown.
        unit_seconds: Their usage, billed or kept in exceptions, likewise.
        billed_unit_seconds: By size, what of it accepting the hour bills, likewise.
        held_unit_seconds: By cause, what of it stays in exceptions, likewise. That of
            `unknown_resource` is in units of the resource's own.
    """

    observed_ticks: int | None = None
    unobserved_seconds: int | None = None
    watch_coverage: Decimal | None = None
    pods: int | None = None
    unit_seconds: int | None = None
    billed_unit_seconds: Mapping[str, int] | None = None
    held_unit_seconds: Mapping[str, int] | None = None

    def losses(self, now: "Shown") -> tuple[str, ...]:
        """Return a sentence for each figure that is lower now."""
        figures: tuple[tuple[str, int | Decimal | None, int | Decimal | None], ...] = (
            ("Scrapes observed", self.observed_ticks, now.observed_ticks),
            ("Share of the hour watched", self.watch_coverage, now.watch_coverage),
            ("Pods", self.pods, now.pods),
            ("Unit-seconds", self.unit_seconds, now.unit_seconds),
        )
        lower = [
            f"{name}: {before} when it was decided, {after or 0} now."
            for name, before, after in figures
            if before is not None and (after or 0) < before
        ]
        before, after = self.unobserved_seconds, now.unobserved_seconds
        if before is not None and after is not None and after > before:
            lower.append(f"Seconds not observed: {before} when it was decided, {after} now.")
        return tuple(lower)

    def format_known(self) -> str:
        """Return the figures that are known in one line; "nothing" without any."""
        figures = (
            (self.observed_ticks, "scrapes"),
            (self.pods, "pods"),
            (self.unit_seconds, "unit-seconds"),
        )
        return ", ".join(f"{value} {name}" for value, name in figures if value is not None) or (
            "nothing"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the figures as they are stored."""
        return {
            "observed_ticks": self.observed_ticks,
            "unobserved_seconds": self.unobserved_seconds,
            "watch_coverage": None if self.watch_coverage is None else str(self.watch_coverage),
            "pods": self.pods,
            "unit_seconds": self.unit_seconds,
            "billed_unit_seconds": self.billed_unit_seconds,
            "held_unit_seconds": self.held_unit_seconds,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Shown":
        """Return stored figures; what is not stored is not known."""
        watched = stored.get("watch_coverage")
        return cls(
            observed_ticks=stored.get("observed_ticks"),
            unobserved_seconds=stored.get("unobserved_seconds"),
            watch_coverage=None if watched is None else Decimal(watched),
            pods=stored.get("pods"),
            unit_seconds=stored.get("unit_seconds"),
            billed_unit_seconds=stored.get("billed_unit_seconds"),
            held_unit_seconds=stored.get("held_unit_seconds"),
        )


def shown_values(
    shown: Shown, *, evidence: Iterable[str], is_end_unobserved: bool = False
) -> dict[str, Any]:
    """Return figures as a window stores them, with a digest of them and of their evidence.

    Args:
        shown: The figures.
        evidence: SHA-256 of each response that they were read from.
        is_end_unobserved: Whether nothing is observed after it, however far ahead it is queried.
    """
    values = {**shown.to_json(), END_UNOBSERVED: is_end_unobserved}
    text = json.dumps([values, sorted(evidence)], sort_keys=True, separators=(",", ":"))
    return {**values, "digest": hashlib.sha256(text.encode()).hexdigest()}


@dataclass(frozen=True)
class DecidedHour:
    """What a decision did to one hour."""

    window_id: int
    start_at: datetime
    result: HourResult
