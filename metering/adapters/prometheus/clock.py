"""The coverage clock: when the exporter of pods and nodes was scraped, by its own `up`.

A pod's absence means something only at a scrape of a target that carried it, so each target keeps
its own scrapes. A target that never carried anything proves nothing and disproves nothing.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime

from metering.adapters.prometheus.names import SHARD_ORDINAL, SHARDS_TOTAL, UP, Names
from metering.adapters.prometheus.samples import Series, to_time
from metering.protocols import ScrapeTarget
from tenants.domain.errors import SourceUnavailableError


@dataclass
class _Target:
    """One scraped address, over all copies of Prometheus: when it answered and when not."""

    up: set[int] = field(default_factory=set)
    down: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Clock:
    """When the exporter of pods and nodes was scraped, all in all and by target."""

    ticks: tuple[datetime, ...]
    targets: tuple[ScrapeTarget, ...]


def read_clock(sights: Sequence[Series], names: Names, *, scrape_seconds: int) -> Clock:
    """Return the successful scrapes in range, oldest first; empty when nothing was seen at all.

    Two copies of Prometheus scrape twice as often as one; ticks closer than three quarters of the
    interval count once, so that their coverage cannot hide a hole.

    Raises:
        SourceUnavailableError: `no_coverage_clock` when there are sights but no `up` beside them,
            `bad_sample` when `up` is neither 0 nor 1.
    """
    targets = _read_targets(sights, names)
    serving = {
        names.label(one.labels, "instance")
        for one in sights
        if one.metric not in (UP, SHARDS_TOTAL, SHARD_ORDINAL)
    }
    if serving and not targets:
        raise SourceUnavailableError(
            "There are pods but no `up` of kube-state-metrics, so absence cannot be told from"
            " blindness.",
            reason="no_coverage_clock",
        )
    scrape = scrape_seconds * 1000
    return Clock(
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

    Series that lost their `instance` are carried by some target that answered at all; each of them
    is needed then, because nothing says which.
    """
    known = [one for name, one in targets.items() if name in serving]
    answering = [one for one in targets.values() if one.up]
    relevant = known or answering
    seen = _thin(sorted(set().union(*(one.up for one in relevant))), scrape * 3 // 4)
    blind = _blind_times(answering if serving and not known else (), scrape // 2)
    return [at for at in seen if not _is_beside(blind, at, scrape // 2)]


def _read_targets(sights: Sequence[Series], names: Names) -> dict[str, _Target]:
    targets: dict[str, _Target] = defaultdict(_Target)
    for one in sights:
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
