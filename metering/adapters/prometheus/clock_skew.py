"""The clock of Prometheus against that of the Kubernetes API, measured from what both wrote.

A new pod's first sample is taken after its creation and, where its target was scraped all the time,
less than one scrape after it. So the least difference over the new pods of an hour lies between 0
and one scrape, unless the clocks differ. What the samples tell is then put on the API's clock, on
which binds, ends and hours are.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from metering.adapters.prometheus.pod_sights import SeenPod
from metering.adapters.prometheus.pods import PodFacts
from metering.adapters.prometheus.samples import to_seconds
from metering.protocols import NodeObservation, PodObservation, ScrapeTarget
from tenants.domain.errors import SourceUnavailableError

TOLERATED_SECONDS: Final = 10
"""A scrape is stamped when it begins and may take this long, Prometheus' own timeout; what is
reported late by the API is later by less. Within this, clocks are taken as one."""
SKEW_SECONDS_MAX: Final = 300
"""Above this, what lies around the hour no longer shows its begin; an hour waits for the clock."""
SCRAPES_BEFORE_MIN: Final = 3
"""A target that was just started may not have listed all pods at its first scrapes."""
PODS_MIN: Final = 3
"""New pods of which the first samples agree, and more than half of them all, before a clock is
believed to be wrong. A stalled exporter shows pods late, and one time of creation may be wrong."""


class Skew(NamedTuple):
    """By how much Prometheus' clock is ahead of the API's, and which pods contradict it.

    Attributes:
        seconds: Below 0 it is behind; 0 where the clocks may be one, and without a new pod.
        defects: By uid, a sentence on each pod whose first sample is too early for it.
    """

    seconds: int
    defects: Mapping[str, str]


def measure_skew(
    seen: Mapping[str, SeenPod],
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
    """Return how many ages lie within one scrape from one on; 0 if too few to be believed."""
    if start == len(ages):
        return 0
    until = ages[start] + scrape_seconds + TOLERATED_SECONDS
    agreeing = sum(1 for age in ages[start:] if age <= until)
    return agreeing if agreeing >= PODS_MIN and 2 * agreeing > len(ages) else 0


def _first_ages(
    seen: Mapping[str, SeenPod],
    facts: Mapping[str, PodFacts],
    ticks: Mapping[str, Sequence[int]],
    *,
    scrape_seconds: int,
) -> Iterator[tuple[int, str]]:
    """Yield how old each new pod was at its first sample, in seconds of two clocks, and its uid."""
    for uid, pod in seen.items():
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
    return replace(
        pod,
        first_seen_at=pod.first_seen_at - skew,
        last_seen_at=pod.last_seen_at - skew,
        terminal_seen_at=None if seen is None else seen - skew,
    )


def node_on_api_clock(node: NodeObservation, skew_seconds: int) -> NodeObservation:
    """Return a node likewise."""
    skew = timedelta(seconds=skew_seconds)
    first, last = node.first_seen_at, node.last_seen_at
    return replace(
        node,
        first_seen_at=None if first is None else first - skew,
        last_seen_at=None if last is None else last - skew,
    )


def ticks_on_api_clock(ticks: Iterable[datetime], skew_seconds: int) -> tuple[datetime, ...]:
    """Return scrapes likewise."""
    skew = timedelta(seconds=skew_seconds)
    return tuple(at - skew for at in ticks)
