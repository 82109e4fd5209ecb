"""Observing: what both sources report of an hour, and whether that is enough to meter it.

Queries are IO and run outside any transaction; the input of a composition is read inside one. The
only write is the audit entry of a refused target, so the same hour may be observed again after its
seal.
"""

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, Decimal
from functools import cached_property

from msgspec import structs

from metering.domain.allocations.pod_life import UNITS_STORED_MAX
from metering.domain.allocations.timeline import observed_ticks, seconds_between
from metering.domain.catalogue.sizing import Catalogue
from metering.domain.collection.scrape_coverage import Hole, ScrapeCoverage, coverage_of, uncovered
from metering.domain.collection.windows import GapPolicy, MeteringPolicy
from metering.protocols import (
    NodeObservation,
    Observation,
    PodObservation,
    ScrapeTarget,
    UsageSource,
)
from metering.selectors.allocations.held import unseen_pods
from metering.selectors.allocations.ledger import (
    COVERAGE_STEP,
    WatchCoverage,
    has_claims,
    watch_coverage,
    window_ledger,
)
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


@dataclass(frozen=True)
class HourObservation:
    """The result of observing one hour.

    Attributes:
        observation: What the source reported; None when there is no source, or it did not respond.
        coverage: How much of the hour it covers; None without an observation.
        failure: Why the source did not respond.
        watch: When the watch was observing; never, without a watch.
        has_claims: Whether the cluster has device claims, which only the watch reports.
    """

    hour: Hour
    as_of: datetime
    observation: Observation | None = None
    coverage: Coverage | None = None
    failure: SourceUnavailableError | None = None
    watch: WatchCoverage = field(default_factory=WatchCoverage)
    has_claims: bool = False

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
            observation = _checked(observation, hour=hour)
        except SourceUnavailableError as error:
            observation, failure = None, error
    return HourObservation(
        hour=hour,
        as_of=observation.as_of if observation else as_of,
        observation=observation,
        coverage=_coverage_of(observation, hour=hour) if observation else None,
        failure=failure,
        watch=_watch_of(hour, until_at=as_of),
        has_claims=hour.is_watched and has_claims(hour.cluster_id),
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


def continuous(observed: HourObservation) -> HourObservation:
    """Return an hour as it was observed, or as a failure where neighbours show more pods in it.

    The query of the hour before reaches into this one, and one that was metered earlier shows what
    came after it. A pod that they show, but this response without holes does not, was omitted from
    it. For a cluster whose pods only the scrapes show.

    One statement, however many pods there are.
    """
    hour, seen = observed.hour, observed.observation
    if hour.is_watched or seen is None:
        return observed
    scrapes = timedelta(seconds=hour.target.scrape_interval_seconds) * BEGUN_SCRAPES
    count, names = unseen_pods(
        hour.cluster_id,
        start_at=hour.start_at,
        begun_before=hour.end_at - scrapes,
        pod_uids=[pod.uid for pod in seen.pods],
    )
    if not count:
        return observed
    failure = SourceUnavailableError(
        f"{count} pods that other hours show at this time are not in the answer, such as"
        f" {', '.join(names)}.",
        reason="pods_missing",
    )
    return replace(observed, observation=None, coverage=None, failure=failure)


def given_of(
    observed: HourObservation,
    *,
    basis: Basis,
    catalogue: Catalogue,
    gap_policy: GapPolicy | None = None,
) -> WindowInput:
    """Return everything an hour is composed from, read in a constant number of statements."""
    hour, seen = observed.hour, observed.observation
    return WindowInput(
        hour=hour,
        observation=seen,
        scrapes=scrapes_of(seen),
        ledger=window_ledger(
            hour.cluster_id,
            start_at=hour.start_at,
            end_at=hour.end_at,
            until_at=max(observed.as_of, hour.end_at),
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


def scrapes_of(observation: Observation | None) -> ScrapeCoverage:
    """Return when scrapes observed which pods and nodes."""
    if observation is None:
        return coverage_of((), targets={}, carried=())
    return coverage_of(
        observation.ticks,
        targets={target.name: target.ticks for target in observation.targets},
        carried=(*observation.pods, *observation.nodes),
        missed=[target.name for target in observation.targets if target.is_missed],
    )


def _coverage_of(observation: Observation, *, hour: Hour) -> Coverage:
    scrapes = scrapes_of(observation)
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


UID_MAX = 64
NAMESPACE_MAX = 63
NAME_MAX = 253
RESOURCE_MAX = 128
OWNER_MAX = 150
PODS_MAX = 100_000
"""Pods of one cluster in one hour; ten times what a cluster of 5,000 nodes starts."""


def _checked(observation: Observation, *, hour: Hour) -> Observation:
    """Return an observation that can be stored; a pod or node that cannot gets a defect.

    Raises:
        SourceUnavailableError: It contradicts itself as a whole.
        ValueError: It is about another window than requested, which is a bug in the source.
    """
    if (observation.start_at, observation.end_at) != (hour.start_at, hour.end_at):
        raise ValueError("the source answered about another window")
    for problem in _problems(observation):
        raise SourceUnavailableError(problem, reason="bad_sample")
    return replace(
        observation,
        pods=tuple(pod if _is_storable(pod) else _cut(pod) for pod in observation.pods),
        nodes=tuple(node if _is_offer(node) else _stripped(node) for node in observation.nodes),
    )


def _problems(observation: Observation) -> Iterable[str]:
    if observation.expected_ticks <= 0:
        yield "No scrapes are expected in the window."
    if any(earlier > later for earlier, later in itertools.pairwise(observation.ticks)):
        yield "The scrapes are out of order."
    if len(observation.pods) > PODS_MAX:
        yield f"More than {PODS_MAX} pods were seen."
    if len({pod.uid for pod in observation.pods}) != len(observation.pods):
        yield "A pod's uid was given twice."


def _is_storable(pod: PodObservation) -> bool:
    return (
        1 <= len(pod.uid) <= UID_MAX
        and 1 <= len(pod.namespace) <= NAMESPACE_MAX
        and 1 <= len(pod.name) <= NAME_MAX
        and len(pod.node) <= NAME_MAX
        and len(pod.owner) <= OWNER_MAX
        and len(pod.priority_class) <= NAME_MAX
        and all(1 <= len(request.resource) <= RESOURCE_MAX for request in pod.requests)
    )


def _cut(pod: PodObservation) -> PodObservation:
    """Return a pod whose texts can be stored; a uid that cannot is replaced by its digest."""
    is_uid = 1 <= len(pod.uid) <= UID_MAX
    return structs.replace(
        pod,
        uid=pod.uid if is_uid else hashlib.sha256(pod.uid.encode()).hexdigest(),
        namespace=pod.namespace[:NAMESPACE_MAX],
        name=pod.name[:NAME_MAX],
        node=pod.node[:NAME_MAX],
        owner=pod.owner[:OWNER_MAX],
        priority_class=pod.priority_class[:NAME_MAX],
        requests=tuple(
            structs.replace(one, resource=one.resource[:RESOURCE_MAX]) for one in pod.requests
        ),
        defects=(*pod.defects, "One of its names is empty or too long."),
    )


def _is_offer(node: NodeObservation) -> bool:
    return (
        1 <= len(node.node) <= NAME_MAX
        and node.covered_seconds >= 0
        and all(1 <= len(name) <= RESOURCE_MAX for name in node.allocatable)
        and all(0 <= units <= UNITS_STORED_MAX for units in node.allocatable.values())
    )


def _stripped(node: NodeObservation) -> NodeObservation:
    """Return a node that offers only what can be stored."""
    offered = {
        name: units
        for name, units in node.allocatable.items()
        if 1 <= len(name) <= RESOURCE_MAX and 0 <= units <= UNITS_STORED_MAX
    }
    return structs.replace(
        node,
        node=node.node[:NAME_MAX],
        allocatable=offered,
        covered_seconds=max(0, node.covered_seconds),
        defects=(*node.defects, "Its name, or what it offers, cannot be stored."),
    )
