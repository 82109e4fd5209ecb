"""Observing: what both sources can say about an hour, and whether that is enough to meter it.

Asking is IO and happens outside any transaction; what is given to a composition is read inside one.
Nothing here writes, so that the same hour may be looked at again after its seal.
"""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_DOWN, Decimal

from metering.domain.attribution import directory_of
from metering.domain.catalogue import Catalogue
from metering.domain.policy import GapPolicy, MeteringPolicy
from metering.domain.timeline import is_blind_at, observed_ticks
from metering.protocols import Observation, UsageSource
from metering.selectors.ledger import COVERAGE_STEP, WatchCoverage, watch_coverage, window_ledger
from metering.selectors.watched_pods import has_claims
from metering.services.checking import check_observation
from metering.services.composed import WindowInput
from metering.services.hours import Hour
from tenants.domain.errors import SourceUnavailableError
from tenants.selectors.directory import namespace_directory


@dataclass(frozen=True)
class Coverage:
    """How much of a window the scrapes saw.

    Attributes:
        ratio: Observed of expected scrapes, 0 to 1, rounded down to five digits.
        is_blind_at_end: Whether nothing was seen at or after the window's end.
    """

    expected: int
    observed: int
    ratio: Decimal
    is_blind_at_end: bool


@dataclass(frozen=True)
class Sight:
    """What became of looking at one hour.

    Attributes:
        observation: What the source saw; None when there is none to ask, or it did not answer.
        coverage: How much of the hour that was; None without an observation.
        failure: Why the source did not answer.
        watch: When the watch had eyes; never, without a watch.
        has_claims: Whether devices are claimed there, of which only the watch can tell.
    """

    hour: Hour
    as_of: datetime
    observation: Observation | None = None
    coverage: Coverage | None = None
    failure: SourceUnavailableError | None = None
    watch: WatchCoverage = field(default_factory=WatchCoverage)
    has_claims: bool = False


@dataclass(frozen=True)
class Basis:
    """On what an hour rests.

    Attributes:
        scrapes_suffice: Whether the scrapes alone would do.
        watch_suffices: Whether the watch alone would do.
        may_miss_claims: Whether there are device claims that the watch was too blind to tell of.
    """

    scrapes_suffice: bool
    watch_suffices: bool
    may_miss_claims: bool = False


def look_at(*, hour: Hour, source: UsageSource, as_of: datetime) -> Sight:
    """Ask everybody about an hour; a source that does not answer is told of, not raised.

    No transaction may be open: a slow source must hold no lock.

    Raises:
        ValueError: The source answered about another hour, which is a mistake in it.
    """
    observation, failure = None, None
    if hour.asks_a_source:
        try:
            observation = source.observe(
                hour.target, start_at=hour.start_at, end_at=hour.end_at, as_of=as_of
            )
            check_observation(observation, hour=hour)
        except SourceUnavailableError as error:
            observation, failure = None, error
    return Sight(
        hour=hour,
        as_of=observation.as_of if observation else as_of,
        observation=observation,
        coverage=_coverage_of(observation, hour=hour) if observation else None,
        failure=failure,
        watch=_watch_of(hour, until_at=as_of),
        has_claims=hour.is_watched and has_claims(hour.cluster_id),
    )


def basis_of(sight: Sight, *, policy: MeteringPolicy, accepts_low_coverage: bool = False) -> Basis:
    """Return which source saw enough of an hour.

    Nobody can accept an hour whose end nobody saw.
    """
    scrapes, watch = sight.coverage, sight.watch
    watch_suffices = (
        sight.hour.is_watched
        and not watch.is_blind_at_end
        and (accepts_low_coverage or watch.ratio >= policy.minimum_coverage)
    )
    return Basis(
        scrapes_suffice=scrapes is not None
        and not scrapes.is_blind_at_end
        and (accepts_low_coverage or scrapes.ratio >= policy.minimum_coverage),
        watch_suffices=watch_suffices,
        may_miss_claims=sight.has_claims and not watch_suffices,
    )


def given_of(
    sight: Sight, *, basis: Basis, catalogue: Catalogue, gap_policy: GapPolicy | None = None
) -> WindowInput:
    """Return everything an hour is composed from, read in a constant number of statements."""
    hour, seen = sight.hour, sight.observation
    return WindowInput(
        hour=hour,
        observation=seen,
        ledger=window_ledger(
            hour.cluster_id,
            start_at=hour.start_at,
            end_at=hour.end_at,
            until_at=max(sight.as_of, hour.end_at),
            pod_uids=[pod.uid for pod in seen.pods] if seen else [],
            is_watched=hour.is_watched,
        ),
        directory=directory_of(
            namespace_directory(hour.cluster_id, begin_at=hour.start_at, end_at=hour.end_at)
        ),
        catalogue=catalogue,
        is_trusted=basis.scrapes_suffice and basis.watch_suffices,
        gap_policy=gap_policy,
    )


def _watch_of(hour: Hour, *, until_at: datetime) -> WatchCoverage:
    if not hour.is_watched:
        return WatchCoverage()
    return watch_coverage(
        hour.cluster_id,
        start_at=hour.start_at,
        end_at=hour.end_at,
        until_at=max(until_at, hour.end_at),
    )


def _coverage_of(observation: Observation, *, hour: Hour) -> Coverage:
    observed = observed_ticks(
        observation.ticks,
        start_at=hour.start_at,
        end_at=hour.end_at,
        scrape_interval_seconds=hour.target.scrape_interval_seconds,
        expected=observation.expected_ticks,
    )
    ratio = Decimal(observed) / Decimal(observation.expected_ticks)
    return Coverage(
        expected=observation.expected_ticks,
        observed=observed,
        ratio=ratio.quantize(COVERAGE_STEP, rounding=ROUND_DOWN),
        is_blind_at_end=is_blind_at(hour.end_at, ticks=observation.ticks),
    )
