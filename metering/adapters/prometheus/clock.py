"""The clock of the exporter's scrapes, and that of Prometheus against the Kubernetes API's.

A pod's absence means something only at a scrape of a target that carried it, so each target keeps
its own scrapes. A target that never carried anything proves nothing and disproves nothing.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec import structs

from metering.adapters.prometheus.completeness import ShownPod
from metering.adapters.prometheus.names import SHARD_ORDINAL, SHARDS_TOTAL, UP, Names
from metering.adapters.prometheus.pods.facts import PodFacts
from metering.adapters.prometheus.samples import Series, to_seconds, to_time
from metering.protocols import NodeObservation, PodObservation, ScrapeTarget
from tenants.domain.errors import SourceUnavailableError


@dataclass
class _Target:
    """One scraped address, over all copies of Prometheus: its scrape results."""

    up: set[int] = field(default_factory=set)
    down: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class ScrapeTimes:
    """When the exporter of pods and nodes was scraped, all in all and by target."""

    ticks: tuple[datetime, ...]
    targets: tuple[ScrapeTarget, ...]


def read_clock(observations: Sequence[Series], names: Names, *, scrape_seconds: int) -> ScrapeTimes:
    """Return the successful scrapes in range, oldest first; empty when nothing was observed.

    Two copies of Prometheus scrape twice as often as one; ticks closer than three quarters of the
    interval count once, so that their coverage cannot hide a hole.

    Raises:
        SourceUnavailableError: `no_coverage_clock` when there are samples of pods but no `up`,
            `bad_sample` when `up` is neither 0 nor 1.
    """
    targets = _read_targets(observations, names)
    serving = {
        names.label(one.labels, "instance")
        for one in observations
        if one.metric not in (UP, SHARDS_TOTAL, SHARD_ORDINAL)
    }
    if serving and not targets:
        raise SourceUnavailableError(
            "There are pods but no `up` of kube-state-metrics, so missing pods cannot be"
            " distinguished from missing scrapes.",
            reason="no_coverage_clock",
        )
    scrape = scrape_seconds * 1000
    return ScrapeTimes(
        ticks=tuple(map(to_time, _ticks(targets, serving=serving, scrape=scrape))),
        targets=tuple(
            ScrapeTarget(
                name=name,
                ticks=tuple(to_time(at) for at in sorted(targets[name].up)),
                failures=len(_blind_times([targets[name]], scrape // 2)),
                has_series=name in serving,
            )
            for name in sorted(targets)
        ),
    )


def _ticks(targets: Mapping[str, _Target], *, serving: AbstractSet[str], scrape: int) -> list[int]:
    """Return the scrapes of the targets that carried anything, in Unix milliseconds.

    Series that lost their `instance` belong to some target with a successful scrape; each of them
    is needed then, because it is unknown which.
    """
    known = [one for name, one in targets.items() if name in serving]
    answering = [one for one in targets.values() if one.up]
    relevant = known or answering
    seen = _thin(sorted(set().union(*(one.up for one in relevant))), scrape * 3 // 4)
    blind = _blind_times(answering if serving and not known else (), scrape // 2)
    return [at for at in seen if not _is_beside(blind, at, scrape // 2)]


def _read_targets(observations: Sequence[Series], names: Names) -> dict[str, _Target]:
    targets: dict[str, _Target] = defaultdict(_Target)
    for one in observations:
        if one.metric != UP:
            continue
        target = targets[names.label(one.labels, "instance")]
        for at, value in zip(one.times, one.values, strict=True):
            if value == "1":
                target.up.add(at)
            elif value == "0":
                target.down.add(at)
            else:
                raise SourceUnavailableError("`up` is neither 0 nor 1.", reason="bad_sample")
    return targets


def _thin(times: Sequence[int], apart: int) -> list[int]:
    kept: list[int] = []
    for at in times:
        if not kept or at - kept[-1] >= apart:
            kept.append(at)
    return kept


def _blind_times(targets: Iterable[_Target], near: int) -> list[int]:
    """Return when some target was down with no copy of Prometheus reaching it meanwhile."""
    blind: list[int] = []
    for target in targets:
        if target.down:
            up = sorted(target.up)
            blind += [at for at in target.down if not _is_beside(up, at, near)]
    return sorted(blind)


def _is_beside(times: Sequence[int], at: int, near: int) -> bool:
    """Whether some time lies less than `near` from `at`."""
    position = bisect_left(times, at - near + 1)
    return position < len(times) and times[position] < at + near


TOLERATED_SECONDS: Final = 10
"""A scrape is stamped when it begins and may take this long, Prometheus' own timeout; what is
reported late by the API is later by less. Within this, clocks are taken as one."""
SKEW_SECONDS_MAX: Final = 300
"""Above this, what lies around the hour no longer shows its begin; an hour waits for the clock."""
SCRAPES_BEFORE_MIN: Final = 3
"""A target that was just started may not have listed all pods at its first scrapes."""
PODS_MIN: Final = 3
"""New pods of which the first samples agree, and more than half of them all, before a clock is
considered wrong. A stalled exporter shows pods late, and one time of creation may be wrong."""


class Skew(NamedTuple):
    """By how much Prometheus' clock is ahead of the API's, and which pods contradict it.

    Attributes:
        seconds: Below 0 it is behind; 0 where the clocks may be one, and without a new pod.
        defects: By uid, a sentence on each pod whose first sample is too early for it.
    """

    seconds: int
    defects: Mapping[str, str]


def measure_skew(
    seen: Mapping[str, ShownPod],
    facts: Mapping[str, PodFacts],
    targets: Iterable[ScrapeTarget],
    *,
    scrape_seconds: int,
) -> Skew:
    """Return the skew that most new pods agree on; a pod that is alone with another contradicts it.

    Raises:
        SourceUnavailableError: `clock_skew` when they are too far apart to be put right.
    """
    ticks = {one.name: [to_seconds(at) for at in one.ticks] for one in targets}
    aged = sorted(_first_ages(seen, facts, ticks, scrape_seconds=scrape_seconds))
    ages = [age for age, _ in aged]
    start = 0
    while start < len(ages) and ages[start] < -TOLERATED_SECONDS:
        if _agreeing(ages, start, scrape_seconds):
            break
        start += 1
    defects = {
        uid: f"Its first sample is {-age} s before the time of its creation."
        for age, uid in aged[:start]
    }
    least = ages[start] if start < len(ages) else 0
    agreeing = _agreeing(ages, start, scrape_seconds)
    if -TOLERATED_SECONDS <= least <= scrape_seconds + TOLERATED_SECONDS or not agreeing:
        return Skew(0, defects)
    # Of n pods that come at any time between two scrapes, the first is seen after 1/(n + 1) of it.
    skew = least - scrape_seconds // (agreeing + 1)
    if abs(skew) > SKEW_SECONDS_MAX:
        raise SourceUnavailableError(
            f"Prometheus' clock is {abs(skew)} s {'ahead of' if skew > 0 else 'behind'} that of"
            f" the Kubernetes API: {agreeing} new pods have their first samples {least} s"
            " after they were created, or later.",
            reason="clock_skew",
        )
    return Skew(skew, defects)


def _agreeing(ages: Sequence[int], start: int, scrape_seconds: int) -> int:
    """Return how many ages lie within one scrape from one on; 0 if too few."""
    if start == len(ages):
        return 0
    until = ages[start] + scrape_seconds + TOLERATED_SECONDS
    agreeing = sum(1 for age in ages[start:] if age <= until)
    return agreeing if agreeing >= PODS_MIN and 2 * agreeing > len(ages) else 0


def _first_ages(
    seen: Mapping[str, ShownPod],
    facts: Mapping[str, PodFacts],
    ticks: Mapping[str, Sequence[int]],
    *,
    scrape_seconds: int,
) -> Iterator[tuple[int, str]]:
    """Yield how old each new pod was at its first sample, in seconds of two clocks, and its uid."""
    # Most pods are older than the first scrapes, which no target was awaited at.
    awaited_from = min(
        (known[SCRAPES_BEFORE_MIN] for known in ticks.values() if len(known) > SCRAPES_BEFORE_MIN),
        default=math.inf,
    )
    for uid, pod in seen.items():
        if pod.first // 1000 < awaited_from:
            continue
        created = facts[uid].created if uid in facts else frozenset()
        first = pod.first // 1000
        if created and any(
            _was_awaited(ticks.get(name, ()), first, scrape_seconds=scrape_seconds)
            for name in pod.targets
        ):
            yield first - to_seconds(min(created)), uid


def _was_awaited(ticks: Sequence[int], first: int, *, scrape_seconds: int) -> bool:
    """Whether a target was scraped some times, and lately, before it showed something first."""
    position = bisect_left(ticks, first)
    return (
        SCRAPES_BEFORE_MIN <= position < len(ticks)
        and ticks[position] == first
        and first - ticks[position - 1] <= scrape_seconds * 3 // 2
    )


def pod_on_api_clock(pod: PodObservation, skew_seconds: int) -> PodObservation:
    """Return a pod whose samples are on the API's clock."""
    skew = timedelta(seconds=skew_seconds)
    seen = pod.terminal_seen_at
    return structs.replace(
        pod,
        first_seen_at=pod.first_seen_at - skew,
        last_seen_at=pod.last_seen_at - skew,
        terminal_seen_at=None if seen is None else seen - skew,
    )


def node_on_api_clock(node: NodeObservation, skew_seconds: int) -> NodeObservation:
    """Return a node likewise."""
    skew = timedelta(seconds=skew_seconds)
    first, last = node.first_seen_at, node.last_seen_at
    return structs.replace(
        node,
        first_seen_at=None if first is None else first - skew,
        last_seen_at=None if last is None else last - skew,
    )


def ticks_on_api_clock(ticks: Iterable[datetime], skew_seconds: int) -> tuple[datetime, ...]:
    """Return scrapes likewise."""
    skew = timedelta(seconds=skew_seconds)
    return tuple(at - skew for at in ticks)


def with_defects(
    pods: Sequence[PodObservation], defects: Mapping[str, str]
) -> tuple[PodObservation, ...]:
    """Return the pods, with a sentence more for some of them, by uid."""
    if not defects:
        return tuple(pods)
    return tuple(
        structs.replace(pod, defects=tuple(sorted({*pod.defects, defects[pod.uid]})))
        if pod.uid in defects
        else pod
        for pod in pods
    )
