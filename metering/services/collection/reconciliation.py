"""Facts of a window about its sources: how they compare, and which was unavailable."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from metering.domain.allocations.timeline import OpenInterval, overlap_seconds, seconds_between
from metering.domain.catalogue.sizing import UnsizedCause
from metering.domain.catalogue.units import sanitise
from metering.domain.collection.hour_decisions import Shown
from metering.domain.collection.scrape_coverage import Hole, united, united_seconds
from metering.domain.collection.windows import GapPolicy
from metering.domain.corrections.exceptions import MISSED_CLAIMS, ExceptionKind, Finding
from metering.services.collection.balancing import place_of
from metering.services.collection.composed import (
    CapacityRow,
    Composed,
    PlaceUse,
    WindowFigures,
)
from metering.services.collection.observing import Basis, HourObservation

_UNUSED: Final = PlaceUse()
TARGETS_NAMED_MAX: Final = 3
TARGETS_KEPT_MAX: Final = 20
"""Scrape targets that a window keeps: a DaemonSet has one for each node."""


def single_source(observed: HourObservation, *, basis: Basis) -> list[Finding]:
    """Return one finding when a cluster has two sources and the hour rests on one of them."""
    if not observed.hour.has_two_sources or (basis.scrapes_suffice and basis.watch_suffices):
        return []
    if not (basis.scrapes_suffice or basis.watch_suffices):
        return [_each_others_holes(observed)] if basis.both_suffice else []
    alone, away = (
        ("Prometheus", "the watch of the Kubernetes API")
        if basis.scrapes_suffice
        else ("the watch of the Kubernetes API", "Prometheus")
    )
    sentences = [f"This hour rests on {alone}, because {away} was away for some of it."]
    details = coverage_details(observed)
    if basis.may_miss_claims:
        sentences.append(
            "What device claims held then may be missing; the hour is looked at again when the "
            "watch is back."
        )
        details[MISSED_CLAIMS] = "may be missing"
    return [
        Finding(
            kind=ExceptionKind.SINGLE_SOURCE,
            subject="",
            summary=" ".join(sentences),
            details=details,
        )
    ]


def _each_others_holes(observed: HourObservation) -> Finding:
    return Finding(
        kind=ExceptionKind.SINGLE_SOURCE,
        subject="",
        summary=(
            "Prometheus and the watch of the Kubernetes API were both away for some of this hour, "
            "but not at once: each time rests on one of them."
        ),
        details=coverage_details(observed),
    )


def coverage_details(observed: HourObservation) -> dict[str, str | int]:
    """Return how much of an hour each source saw."""
    details: dict[str, str | int] = {}
    if observed.coverage is not None:
        details["expected"] = observed.coverage.expected
        details["observed"] = observed.coverage.observed
        details["coverage"] = str(observed.coverage.ratio)
        details["unobserved_seconds"] = united_seconds(observed.holes)
        details["unobserved_targets"] = target_names(observed.holes)
    if observed.failure is not None:
        details["reason"] = observed.failure.reason
    if observed.hour.is_watched:
        details["watch_coverage"] = str(observed.watch.ratio)
    return details


def target_names(holes: Iterable[Hole]) -> str:
    """Return the scrape targets with gaps, as text."""
    names = sorted({name for hole in holes for name in hole.targets})
    more = len(names) - TARGETS_NAMED_MAX
    return ", ".join(names[:TARGETS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def hole_values(observed: HourObservation) -> dict[str, int | str | None]:
    """Return what was not observed of an hour, as the window keeps it."""
    targets = observed.observation.targets if observed.observation else ()
    failing = [one for one in targets if one.failures or not one.has_series]
    return {
        "unobserved_seconds": united_seconds(observed.holes),
        "longest_hole_seconds": max((hole.seconds for hole in observed.holes), default=0),
        "scrape_targets": json.dumps(
            [
                {
                    "name": one.name,
                    "scrapes": len(one.ticks),
                    "failures": one.failures,
                    "has_series": one.has_series,
                }
                for one in failing[:TARGETS_KEPT_MAX]
            ]
        ),
    }


def figures_of(composed: Composed, *, holes: Sequence[Hole]) -> WindowFigures:
    """Return what the pods of a window, or of a part of it, add up to.

    Args:
        composed: Its records and findings.
        holes: What neither source observed of the window.
    """
    _note_holes(composed, stretches=united(holes))
    found = [row for row in composed.findings if row.held_unit_seconds]
    billed: Counter[str] = Counter()
    for use in composed.usage:
        billed[use.fact.size] += use.unit_seconds
    held: Counter[str] = Counter()
    for row in found:
        is_other_unit = row.details.get("cause") == UnsizedCause.UNKNOWN_RESOURCE
        held[UnsizedCause.UNKNOWN_RESOURCE if is_other_unit else row.kind] += row.held_unit_seconds
    pods = {row.fact.pod_uid for row in composed.usage}
    return WindowFigures(
        records=len(composed.usage),
        billed_unit_seconds=dict(billed),
        held_unit_seconds={str(cause): held for cause, held in held.items()},
        pods=pods | {row.subject.partition(" ")[0] for row in found},
        findings=[(row.kind, row.subject) for row in composed.findings],
        places=composed.places,
        comparison=composed.comparison,
    )


def _note_holes(composed: Composed, *, stretches: Sequence[tuple[datetime, datetime]]) -> None:
    """Add up what was billed in times that neither source observed."""
    for row in composed.usage if stretches else ():
        seconds = sum(
            overlap_seconds(
                OpenInterval(begin, end), begin_at=row.interval.begin_at, end_at=row.interval.end_at
            )
            for begin, end in stretches
        )
        units = 0 if row.offered_as else row.fact.units
        composed.places[place_of(row)].hole_unit_seconds += units * seconds


def hidden_unit_seconds(
    figures: WindowFigures, *, capacity: Sequence[CapacityRow], holes: Sequence[Hole]
) -> dict[str, int] | None:
    """Return by size how many unit-seconds holes can have hidden at most: what was free in them.

    None when nothing is known of what the nodes offered, so that there is no bound.
    """
    stretches = united(holes)
    if stretches and not capacity:
        return None
    found: dict[str, int] = defaultdict(int)
    whole = sum(seconds_between(begin, end) for begin, end in stretches)
    for row in capacity if stretches else ():
        use = figures.places.get((row.node, sanitise(row.resource)), _UNUSED)
        free = row.allocatable_units * whole - use.hole_unit_seconds
        found[row.size or "unsized"] += max(0, free)
    return dict(sorted(found.items()))


def shown_of(figures: WindowFigures, *, observed: HourObservation) -> Shown:
    """Return what a reviewer is shown of an hour before deciding on it.

    Args:
        figures: Of the hour's records without any estimate.
        observed: What the sources reported.
    """
    return Shown(
        observed_ticks=observed.coverage.observed if observed.coverage else None,
        unobserved_seconds=united_seconds(observed.holes),
        watch_coverage=observed.watch.ratio if observed.hour.is_watched else None,
        pods=len(figures.pods),
        unit_seconds=figures.unit_seconds + sum(figures.held_unit_seconds.values()),
        billed_unit_seconds=dict(sorted(figures.billed_unit_seconds.items())),
        held_unit_seconds=dict(sorted(figures.held_unit_seconds.items())),
    )


def evidence_digests(observed: HourObservation) -> list[str]:
    """Return the SHA-256 of each response that an observation was read from."""
    return [item.sha256 for item in observed.observation.evidence] if observed.observation else []


def reconciliation_of(
    figures: WindowFigures, *, observed: HourObservation, gap_policy: GapPolicy | None
) -> dict[str, object]:
    """Return how the sources of a window compare, as it is kept with the window.

    Empty for a cluster that has one source, unless an estimate was decided upon.
    """
    details: dict[str, object] = {"gap_policy": gap_policy.value} if gap_policy else {}
    if not observed.hour.is_watched:
        return details
    comparison = figures.comparison
    return {
        **details,
        "pods": {verdict.value: count for verdict, count in sorted(comparison.verdicts.items())},
        "unit_seconds": {
            **dict(sorted(comparison.billed_unit_seconds.items())),
            "billed": figures.unit_seconds,
            "disputed": comparison.disputed_unit_seconds,
        },
    }
