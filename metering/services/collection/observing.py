"""Observing: what both sources report of an hour, and whether that is enough to meter it.

Queries are IO and run outside any transaction; the input of a composition is read inside one. The
only write is the audit entry of a refused target, so the same hour may be observed again after its
seal.
"""

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from functools import cached_property, partial

from metering.domain.allocations.timeline import observed_ticks, seconds_between
from metering.domain.catalogue.sizing import Catalogue
from metering.domain.collection.parts import WHOLE, Part
from metering.domain.collection.scrape_coverage import (
    Carried,
    Hole,
    ScrapeCoverage,
    coverage_of,
    uncovered,
)
from metering.domain.collection.windows import GapPolicy, MeteringPolicy
from metering.protocols import Observation, PodObservation, ScrapeTarget, UsageSource
from metering.protocols.storable import checked
from metering.selectors.allocations.held import unseen_pods
from metering.selectors.allocations.ledger import has_claims, window_ledger
from metering.selectors.allocations.watch import COVERAGE_STEP, WatchCoverage, watch_coverage
from metering.services.collection.composed import Hour, WindowInput
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.selectors.directory import directory_of, namespace_directory
from tenants.services.audit import audited_use

BEGUN_SCRAPES = 2
"""A pod that begins within so many scrapes of the hour's end may be observed first after it."""
REFUSED_REASONS = frozenset({"bad_sample", "clock_skew", "two_clusters"})
"""The source has samples of the hour that cannot be used, and waiting mends none of them."""


@dataclass(frozen=True)
class Coverage:
    """What the scrapes observed of a window.

    Attributes:
        expected: How many scrapes should be in it.
        observed: How many succeeded, for the target that has the fewest.
        ratio: Observed of expected scrapes, 0 to 1, rounded down to five digits.
        holes: When some pods and nodes were not observed, oldest first.
        is_blind_at_end: Whether nothing was observed at or after the window's end.
        idle_targets: Targets without series, whose gaps hide nothing.
    """

    expected: int
    observed: int
    ratio: Decimal
    holes: tuple[Hole, ...]
    is_blind_at_end: bool
    idle_targets: tuple[ScrapeTarget, ...] = ()


def _no_pods() -> tuple[PodObservation, ...]:
    return ()


@dataclass(frozen=True)
class HourPart:
    """Some of an hour's pods, which are kept packed.

    Attributes:
        read: Returns them, unpacked anew each time.
        read_uids: Returns their uids likewise.
    """

    part: Part
    read: Callable[[], tuple[PodObservation, ...]] = _no_pods
    read_uids: Callable[[], Sequence[str]] = tuple


@dataclass(frozen=True)
class HourObservation:
    """The result of observing one hour.

    Attributes:
        observation: What the source reported; None when there is no source, or it did not respond.
        scrapes: When scrapes observed which pods and nodes of it.
        coverage: How much of the hour it covers; None without an observation.
        failure: Why the source did not respond.
        watch: When the watch was observing; never, without a watch.
        has_claims: Whether the cluster has device claims, which only the watch reports.
        parts: Its pods, where they are too many to be held together; `observation` has none then.
    """

    hour: Hour
    as_of: datetime
    observation: Observation | None = None
    scrapes: ScrapeCoverage = field(default_factory=partial(ScrapeCoverage, ()))
    coverage: Coverage | None = None
    failure: SourceUnavailableError | None = None
    watch: WatchCoverage = field(default_factory=WatchCoverage)
    has_claims: bool = False
    parts: tuple[HourPart, ...] = ()

    @property
    def all_parts(self) -> tuple[HourPart, ...]:
        """Return its parts; mostly it is one, the whole."""
        return self.parts or (HourPart(WHOLE),)

    def of_part(self, part: HourPart) -> "HourObservation":
        """Return the hour with the pods of one part."""
        if part.part.is_whole or self.observation is None:
            return self
        return replace(self, observation=replace(self.observation, pods=part.read()))

    @property
    def pod_uids(self) -> list[str]:
        """Return the uids of all pods that the source reported."""
        if self.parts:
            return [uid for one in self.parts for uid in one.read_uids()]
        return [pod.uid for pod in self.observation.pods] if self.observation else []

    @cached_property
    def watch_holes(self) -> tuple[Hole, ...]:
        """Return when the watch observed nothing."""
        return uncovered((self._whole,), spans=self.watch.spans)

    @cached_property
    def holes(self) -> tuple[Hole, ...]:
        """Return what neither source observed."""
        scrapes = (self._whole,) if self.coverage is None else self.coverage.holes
        return uncovered(scrapes, spans=self.watch.spans)

    @property
    def is_estimable(self) -> bool:
        """Whether an estimate of the hour need not wait for the source to respond."""
        is_refused = self.failure is not None and self.failure.reason in REFUSED_REASONS
        return self.failure is None or self.hour.is_watched or is_refused

    @property
    def _whole(self) -> Hole:
        begin_at, end_at = self.hour.start_at, self.hour.end_at
        return Hole(begin_at, end_at, seconds_between(begin_at, end_at), is_bounded=True)


@dataclass(frozen=True)
class Basis:
    """The sources an hour is metered from.

    Attributes:
        scrapes_suffice: Whether the scrapes alone are enough.
        watch_suffices: Whether the watch alone is enough.
        both_suffice: Whether each covers the holes of the other.
        may_miss_claims: Whether there are device claims, and the watch observed too little to
            report them.
    """

    scrapes_suffice: bool
    watch_suffices: bool
    both_suffice: bool = False
    may_miss_claims: bool = False

    @property
    def suffices(self) -> bool:
        """Whether the hour rests on anything."""
        return self.scrapes_suffice or self.watch_suffices or self.both_suffice


def observe_hour(
    *, hour: Hour, source: UsageSource, as_of: datetime, actor: Actor, at: datetime
) -> HourObservation:
    """Query every source about an hour; a failure is returned, not raised.

    No transaction may be open: a slow source must not keep locks.

    Args:
        hour: The hour.
        source: The source to query.
        as_of: The evaluation time of the query.
        actor: The actor of the audit entry for a refused target.
        at: When, UTC.

    Raises:
        ValueError: The source returned another hour, which is a bug in it.
    """
    observation, failure = None, None
    if hour.asks_a_source:
        try:
            with audited_use(slug=hour.target.slug, actor=actor, at=at):
                observation = source.observe(
                    hour.target, start_at=hour.start_at, end_at=hour.end_at, as_of=as_of
                )
            observation = checked(observation, start_at=hour.start_at, end_at=hour.end_at)
        except SourceUnavailableError as error:
            observation, failure = None, error
    scrapes = scrapes_of(observation)
    return HourObservation(
        hour=hour,
        as_of=observation.as_of if observation else as_of,
        observation=observation,
        scrapes=scrapes,
        coverage=hour_coverage(observation, scrapes=scrapes, hour=hour) if observation else None,
        failure=failure,
        watch=watch_of(hour, until_at=as_of),
        has_claims=has_claims_of(hour),
    )


def basis_of(
    observed: HourObservation, *, policy: MeteringPolicy, accepts_low_coverage: bool = False
) -> Basis:
    """Return which source observed enough of an hour: all but holes that are short enough.

    An hour after whose end nothing was observed cannot be accepted.
    """
    limit = policy.hole_seconds_max
    sees_end = observed.coverage is not None and not observed.coverage.is_blind_at_end
    watch_sees_end = observed.hour.is_watched and not observed.watch.is_blind_at_end

    def are_short(holes: Iterable[Hole]) -> bool:
        return accepts_low_coverage or not any(hole.exceeds(limit) for hole in holes)

    watch_suffices = watch_sees_end and are_short(observed.watch_holes)
    return Basis(
        scrapes_suffice=observed.coverage is not None
        and sees_end
        and are_short(observed.coverage.holes),
        watch_suffices=watch_suffices,
        both_suffice=sees_end and watch_sees_end and are_short(observed.holes),
        may_miss_claims=observed.has_claims and not watch_suffices,
    )


def continuous(
    observed: HourObservation, *, pod_uids: Collection[str] | None = None
) -> HourObservation:
    """Return an hour as it was observed, or as a failure where neighbours show more pods in it.

    The query of the hour before reaches into this one, and one that was metered earlier shows what
    came after it. A pod that they show, but this response without holes does not, was omitted from
    it. For a cluster whose pods only the scrapes show.

    One statement, however many pods there are.

    Args:
        observed: The hour.
        pod_uids: Of all its pods, where it was observed in parts.
    """
    hour, seen = observed.hour, observed.observation
    if hour.is_watched or seen is None:
        return observed
    uids = observed.pod_uids if pod_uids is None else pod_uids
    scrapes = timedelta(seconds=hour.target.scrape_interval_seconds) * BEGUN_SCRAPES
    count, names = unseen_pods(
        hour.cluster_id,
        start_at=hour.start_at,
        begun_before=hour.end_at - scrapes,
        pod_uids=uids,
    )
    if not count:
        return observed
    failure = SourceUnavailableError(
        f"{count} pods that other hours show at this time are not in the answer, such as"
        f" {', '.join(names)}.",
        reason="pods_missing",
    )
    return replace(
        observed,
        observation=None,
        scrapes=scrapes_of(None),
        coverage=None,
        failure=failure,
        parts=tuple(HourPart(one.part) for one in observed.parts),
    )


def given_of(
    observed: HourObservation,
    *,
    basis: Basis,
    catalogue: Catalogue,
    gap_policy: GapPolicy | None = None,
    part: Part = WHOLE,
) -> WindowInput:
    """Return everything an hour, or a part, is composed from; a constant number of statements."""
    hour, seen = observed.hour, observed.observation
    ledger = window_ledger(
        hour.cluster_id,
        start_at=hour.start_at,
        end_at=hour.end_at,
        until_at=max(observed.as_of, hour.end_at),
        pod_uids=[pod.uid for pod in seen.pods] if seen else [],
        is_watched=hour.is_watched,
        part=part,
        settled=hour.settled,
    )
    return WindowInput(
        hour=hour,
        observation=seen,
        scrapes=observed.scrapes,
        # All parts of an hour go by one state of the watch.
        ledger=ledger if part.is_whole else replace(ledger, watch=observed.watch),
        directory=directory_of(
            namespace_directory(hour.cluster_id, begin_at=hour.start_at, end_at=hour.end_at)
        ),
        catalogue=catalogue,
        is_trusted=basis.scrapes_suffice and basis.watch_suffices,
        gap_policy=gap_policy,
    )


def has_claims_of(hour: Hour) -> bool:
    """Return whether an hour's cluster has device claims, which only the watch reports."""
    return hour.is_watched and has_claims(hour.cluster_id)


def watch_of(hour: Hour, *, until_at: datetime) -> WatchCoverage:
    """Return when the watch observed around an hour; never, without a watch."""
    if not hour.is_watched:
        return WatchCoverage()
    return watch_coverage(
        hour.cluster_id,
        start_at=hour.start_at,
        end_at=hour.end_at,
        until_at=max(until_at, hour.end_at),
    )


def scrapes_of(
    observation: Observation | None, *, carried: Iterable[Carried] | None = None
) -> ScrapeCoverage:
    """Return when scrapes observed which pods and nodes.

    Args:
        observation: The observation; None without one.
        carried: Its pods, where they were observed in parts.
    """
    if observation is None:
        return coverage_of((), targets={}, carried=())
    return coverage_of(
        observation.ticks,
        targets={target.name: target.ticks for target in observation.targets},
        carried=(*(observation.pods if carried is None else carried), *observation.nodes),
        missed=[target.name for target in observation.targets if target.is_missed],
    )


def hour_coverage(observation: Observation, *, scrapes: ScrapeCoverage, hour: Hour) -> Coverage:
    """Return how much of an hour scrapes covered."""
    scrape_interval_seconds = hour.target.scrape_interval_seconds
    observed = min(
        observed_ticks(
            line.ticks,
            start_at=hour.start_at,
            end_at=hour.end_at,
            scrape_interval_seconds=scrape_interval_seconds,
            expected=observation.expected_ticks,
        )
        for line in scrapes.lines
    )
    ratio = Decimal(observed) / Decimal(observation.expected_ticks)
    return Coverage(
        expected=observation.expected_ticks,
        observed=observed,
        ratio=ratio.quantize(COVERAGE_STEP, rounding=ROUND_DOWN),
        holes=scrapes.holes(
            start_at=hour.start_at,
            end_at=hour.end_at,
            scrape_interval_seconds=scrape_interval_seconds,
        ),
        is_blind_at_end=scrapes.last_tick is None or scrapes.last_tick < hour.end_at,
        idle_targets=tuple(one for one in observation.targets if not one.has_series),
    )


@contextmanager
def repeatable_read() -> Iterator[None]:
    """Let no search for cycles interrupt a block, nor the function this decorates.

    A window of ten thousand pods makes a million objects that live until it is written and hold
    no cycles; three searches through half of them took a tenth of the time of reading them. What
    cycles there are wait for the end of the window, which is bounded in size and in time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
