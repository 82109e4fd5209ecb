"""Targets that should have been scraped: those of the last day, and every shard there is.

A target that leaves service discovery has no `up` any more, and takes its pods' series with it. So
the targets of an hour are compared with those of the day before its end. One that is away is
missed if nothing has shown since what it carried; after a restart or an upgrade another target
has. Where kube-state-metrics is sharded and its own metrics are scraped, it tells how many shards
there are.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from metering.adapters.prometheus.asking import Asking
from metering.adapters.prometheus.names import SHARD_ORDINAL, SHARDS_TOTAL, Names
from metering.adapters.prometheus.queries import ANSWER_LABEL, TARGETS, QueryPlan
from metering.adapters.prometheus.samples import (
    Range,
    Series,
    read_count,
    read_decimal,
    read_rows,
    to_time,
)
from metering.protocols import ScrapeTarget
from tenants.domain.errors import SourceUnavailableError

MOMENTS_MAX: Final = 4
"""At so many moments targets may have left: an upgrade, a second one, and some nodes of a
DaemonSet. Those that left earlier were judged in the hours that came next."""
KEPT_PARTS_MIN: Final = 10
"""A target has a successor if one tenth of what it carried was seen later. A restart keeps its
nodes and most pods; of a shard that is away nothing is seen."""
SHARDS_MAX: Final = 1_000


def check_targets(
    asking: Asking,
    plan: QueryPlan,
    within: Range,
    *,
    scraped: Sequence[ScrapeTarget],
    scrape_seconds: int,
) -> tuple[ScrapeTarget, ...]:
    """Return the targets of a window, and with them those of the last day that are missed.

    Raises:
        SourceUnavailableError: No answer, one that was cut, or one that cannot be believed.
    """
    answering = {target.name for target in scraped if target.ticks}
    left = {
        name: at
        for name, at in _targets_of_day(asking, plan, within).items()
        if name not in answering and at <= within.first_seconds
    }
    if not left:
        return tuple(scraped)
    missed = _missed(asking, plan, within, left=left, scrape_seconds=scrape_seconds)
    return (
        *(replace(one, is_missed=True) if one.name in missed else one for one in scraped),
        *(
            ScrapeTarget(name=name, ticks=(), is_missed=True)
            for name in sorted(missed - {one.name for one in scraped})
        ),
    )


def _targets_of_day(asking: Asking, plan: QueryPlan, within: Range) -> dict[str, int]:
    """Return when each target last answered, Unix seconds, by its name."""
    query = plan.targets()
    answer = asking.ask(query, within)
    found: dict[str, int] = {}
    rows, counted = 0, None
    for labels, value in read_rows(answer):
        if labels.get(ANSWER_LABEL) == TARGETS:
            counted = read_count(value)
        else:
            rows += 1
            name = plan.names.label(labels, "instance")
            found[name] = max(found.get(name, 0), int(read_decimal(value)))
    asking.note(query, within, answer, rows)
    if counted != rows:
        raise SourceUnavailableError(
            f"Prometheus knows {counted} targets of the last day, but its answer has {rows}.",
            reason="count_differs",
        )
    return found


@dataclass
class _Handover:
    """What one target carried when it was last seen, and what of it was seen later.

    Attributes:
        pods_placed: Pods on nodes that were seen later.
    """

    pods: int = 0
    pods_kept: int = 0
    pods_placed: int = 0
    nodes: int = 0
    nodes_kept: int = 0

    @property
    def has_no_successor(self) -> bool:
        """Whether pods that it carried have been shown by none since.

        A target that carries pods alone is a node's own; when the node is gone, so are its pods.
        """
        pods = self.pods if self.nodes else self.pods_placed
        kept = self.pods_kept + self.nodes_kept
        return pods > 0 and kept * KEPT_PARTS_MIN < pods + self.nodes


def _missed(
    asking: Asking,
    plan: QueryPlan,
    within: Range,
    *,
    left: Mapping[str, int],
    scrape_seconds: int,
) -> set[str]:
    """Return the targets that left without a successor."""
    moments = sorted(set(left.values()), reverse=True)[:MOMENTS_MAX]
    ages = [within.asked_seconds - at for at in moments]
    query = partial(plan.handovers, scrape_seconds=scrape_seconds)(ages)
    answer = asking.ask(query, within)
    handovers: dict[tuple[str, int], _Handover] = defaultdict(_Handover)
    rows = 0
    for labels, value in read_rows(answer):
        rows += 1
        position, _, what = labels.get(ANSWER_LABEL, "").partition(" ")
        if not position.isdecimal() or what not in _Handover.__dataclass_fields__:
            raise SourceUnavailableError("The answer is not shaped as one.", reason="bad_answer")
        handover = handovers[plan.names.label(labels, "instance"), int(position)]
        setattr(handover, what, getattr(handover, what) + read_count(value))
    asking.note(query, within, answer, rows)
    return {
        name
        for name, at in left.items()
        if at in moments and handovers[name, moments.index(at)].has_no_successor
    }


def missed_shards(
    sights: Iterable[Series], names: Names, *, scrape_seconds: int
) -> tuple[ScrapeTarget, ...]:
    """Return the shards that were not there all the time the others were, as targets.

    While their number changes, an hour is observed where all shards of one number are there.

    Raises:
        SourceUnavailableError: `bad_sample` for a number of shards that cannot be.
    """
    reported = _reported(sights, names)
    times = sorted({at for found in reported.values() for at in found})
    totals = sorted({total for total, _ in reported})
    near = scrape_seconds * 1000 * 3 // 2
    shards = {
        total: [sorted(reported.get((total, ordinal), ())) for ordinal in range(total)]
        for total in totals
    }
    if len(totals) == 1:
        return tuple(
            _as_target(f"shard {ordinal} of {totals[0]}", ticks)
            for ordinal, ticks in enumerate(shards[totals[0]])
            if not all(_is_near(ticks, at, near) for at in times)
        )
    whole = [
        at
        for at in times
        if any(all(_is_near(ticks, at, near) for ticks in found) for found in shards.values())
    ]
    if len(whole) == len(times):
        return ()
    words = " or ".join(map(str, totals))
    return (_as_target(f"all shards of {words}", whole),)


def _reported(sights: Iterable[Series], names: Names) -> dict[tuple[int, int], set[int]]:
    """Return when each shard was reported, in Unix milliseconds, by total and ordinal."""
    told: dict[str, dict[str, dict[int, int]]] = {SHARDS_TOTAL: {}, SHARD_ORDINAL: {}}
    for one in sights:
        if one.metric in told:
            found = told[one.metric].setdefault(names.label(one.labels, "instance"), {})
            found.update(zip(one.times, map(read_count, one.values), strict=True))
    reported: dict[tuple[int, int], set[int]] = defaultdict(set)
    for instance, totals in told[SHARDS_TOTAL].items():
        ordinals = told[SHARD_ORDINAL].get(instance, {})
        for at, total in totals.items():
            ordinal = ordinals.get(at)
            if not 1 <= total <= SHARDS_MAX or (ordinal is not None and ordinal >= total):
                raise SourceUnavailableError(
                    f"Shard {ordinal} of {total} cannot be.", reason="bad_sample"
                )
            if ordinal is not None:
                reported[total, ordinal].add(at)
    return reported


def _as_target(name: str, ticks: Iterable[int]) -> ScrapeTarget:
    return ScrapeTarget(name=name, ticks=tuple(map(to_time, ticks)), is_missed=True)


def _is_near(ticks: Sequence[int], at: int, near: int) -> bool:
    """Whether some time lies at most `near` from `at`."""
    position = bisect_left(ticks, at - near)
    return position < len(ticks) and ticks[position] <= at + near
