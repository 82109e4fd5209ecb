"""What a window says about its sources: how they compare, and which of them was away."""

from metering.domain.exceptions import MISSED_CLAIMS, ExceptionKind, Finding
from metering.domain.policy import GapPolicy
from metering.services.composed import Composed
from metering.services.observing import Basis, Sight


def single_source(sight: Sight, *, basis: Basis) -> list[Finding]:
    """Return one finding when a cluster has two sources and the hour rests on one of them."""
    if not sight.hour.has_two_sources or basis.scrapes_suffice == basis.watch_suffices:
        return []
    alone, away = (
        ("Prometheus", "the watch of the Kubernetes API")
        if basis.scrapes_suffice
        else ("the watch of the Kubernetes API", "Prometheus")
    )
    told = [f"This hour rests on {alone}, because {away} was away for some of it."]
    details = coverage_details(sight)
    if basis.may_miss_claims:
        told.append(
            "What device claims held then may be missing; the hour is looked at again when the "
            "watch is back."
        )
        details[MISSED_CLAIMS] = "may be missing"
    return [
        Finding(
            kind=ExceptionKind.SINGLE_SOURCE, subject="", summary=" ".join(told), details=details
        )
    ]


def coverage_details(sight: Sight) -> dict[str, str | int]:
    """Return how much of an hour each source saw."""
    details: dict[str, str | int] = {}
    if sight.coverage is not None:
        details["expected"] = sight.coverage.expected
        details["observed"] = sight.coverage.observed
        details["coverage"] = str(sight.coverage.ratio)
    if sight.failure is not None:
        details["reason"] = sight.failure.reason
    if sight.hour.is_watched:
        details["watch_coverage"] = str(sight.watch.ratio)
    return details


def reconciliation_of(
    composed: Composed, *, sight: Sight, gap_policy: GapPolicy | None
) -> dict[str, object]:
    """Return how the sources of a window compare, as it is kept with the window.

    Empty for a cluster that has one source, unless an estimate was decided upon. Figures of devices
    whose metric nobody exports are named: they say "no data", which is not idle.
    """
    told: dict[str, object] = {"gap_policy": gap_policy.value} if gap_policy else {}
    if sight.observation is not None and sight.observation.missing_figures:
        told["missing_figures"] = list(sight.observation.missing_figures)
    if not sight.hour.is_watched:
        return told
    comparison = composed.comparison
    return {
        **told,
        "pods": {verdict.value: count for verdict, count in sorted(comparison.verdicts.items())},
        "unit_seconds": {
            **dict(sorted(comparison.told_unit_seconds.items())),
            "billed": sum(row.unit_seconds for row in composed.usage),
            "disputed": comparison.disputed_unit_seconds,
        },
    }
