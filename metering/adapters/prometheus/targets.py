"""Targets that should have been scraped: those of the last day, and every shard.

A target that leaves service discovery no longer has `up`, and its pods' series end. So the targets
of an hour are compared with those of the day before its end. An absent target counts as missing if
no other target has exported its series since; after a restart or an upgrade another one has. Where
kube-state-metrics is sharded and its own metrics are scraped, it reports the number of shards.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from metering.adapters.prometheus.asking import Asking
from metering.adapters.prometheus.names import SHARD_ORDINAL, SHARDS_TOTAL, Names
from metering.adapters.prometheus.queries import (
    ANSWER_LABEL,
    TARGET_STEP_SECONDS,
    TARGETS,
    Moment,
    QueryPlan,
)
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
"""So many moments at which targets left are judged by one query."""
QUERIES_MAX: Final = 12
"""So many queries judge all that left in a day. Moments nearer to each other than a few minutes are
one; where that is not enough, as on a large DaemonSet, those of up to 40 minutes."""
KEPT_PARTS_MIN: Final = 10
"""A target has a successor if one tenth of its objects was observed later. A restart keeps its
nodes and most pods; of a missing shard nothing is observed."""
SHARDS_MAX: Final = 1_000


def check_targets(
    asking: Asking,
    plan: QueryPlan,
    within: Range,
    *,
    last_scraped: Mapping[str, int],
    scraped: Sequence[ScrapeTarget],
    scrape_seconds: int,
) -> tuple[ScrapeTarget, ...]:
    """Return the targets of a window, and with them those of the last day that are missed.

    Args:
        asking: The conversation about the window.
        plan: Its queries.
        within: What they cover.
        last_scraped: When each target of the last day was last scraped, Unix seconds.
        scraped: The targets of the window.
        scrape_seconds: How far scrapes are apart.

    Raises:
        SourceUnavailableError: No response, a cut one, or an invalid one.
    """
    answering = {target.name for target in scraped if target.ticks}
    left = {
        name: at
        for name, at in last_scraped.items()
        if name not in answering and at <= within.first_seconds
    }
    if not left:
        return tuple(scraped)
    missed: set[str] = set()
    groups = _groups(left)
    for position in range(0, len(groups), MOMENTS_MAX):
        some = groups[position : position + MOMENTS_MAX]
        missed |= _missed(asking, plan, within, left=some, scrape_seconds=scrape_seconds)
    return (
        *(replace(one, is_missed=True) if one.name in missed else one for one in scraped),
        *(
            ScrapeTarget(name=name, ticks=(), is_missed=True)
            for name in sorted(missed - {one.name for one in scraped})
        ),
    )


def ask_targets(asking: Asking, plan: QueryPlan, within: Range) -> dict[str, int]:
    """Return when each target of the last day was last scraped, Unix seconds, by its name.

    Raises:
        SourceUnavailableError: No response, a cut one, or an invalid one.
    """
    query = plan.targets()
    answer = asking.ask(query, within)
    found = list(read_rows(answer))
    asking.note(query, within, answer, len(found))
    return read_targets(found, plan.names)


def read_targets(answered: Iterable[tuple[Mapping[str, str], str]], names: Names) -> dict[str, int]:
    """Return what `ask_targets` does, from the rows of its response.

    Raises:
        SourceUnavailableError: A cut response, or an invalid one.
    """
    found: dict[str, int] = {}
    rows, counted = 0, None
    for labels, value in answered:
        if labels.get(ANSWER_LABEL) == TARGETS:
            counted = read_count(value)
        else:
            rows += 1
            name = names.label(labels, "instance")
            found[name] = max(found.get(name, 0), int(read_decimal(value)))
    if counted != rows:
        raise SourceUnavailableError(
            f"Prometheus knows {counted} targets of the last day, but its answer has {rows}.",
            reason="count_differs",
        )
    return found


def _groups(left: Mapping[str, int]) -> list[dict[str, int]]:
    """Return the targets that left at about one moment, latest first, in as few groups as needed.

    The width doubles until the groups are few enough; at 40 minutes a day has 36 at most.
    """
    width = TARGET_STEP_SECONDS
    while True:
        groups: list[dict[str, int]] = []
        latest = 0
        for name, at in sorted(left.items(), key=lambda item: (-item[1], item[0])):
            if not groups or latest - at > width:
                groups.append({})
                latest = at
            groups[-1][name] = at
        if len(groups) <= MOMENTS_MAX * QUERIES_MAX:
            return groups
        width *= 2


@dataclass
class _Handover:
    """The objects of one target when last observed, and how many were observed later.

    Attributes:
        pods_placed: Pods on nodes that were seen later.
        alone: Pods that no other target carried at that time.
        nodes_alone: Nodes likewise: a node that another target exported all along is no evidence of
            a successor.
        nodes_kept: Of those, the ones that were seen later.
        nodes_in_use: Of those, the ones that pods of any kind were shown on at last.
    """

    pods: int = 0
    pods_kept: int = 0
    pods_placed: int = 0
    alone: int = 0
    alone_kept: int = 0
    alone_placed: int = 0
    nodes: int = 0
    nodes_alone: int = 0
    nodes_kept: int = 0
    nodes_in_use: int = 0

    @property
    def has_no_successor(self) -> bool:
        """Whether what it carried has been shown by none since.

        A target that carries pods alone is a node's own; when the node is gone, so are its pods. Of
        one that carried idle nodes, only a pod that is shown on them proves that they are there.
        """
        if not self.pods:
            return self.nodes_in_use > 0 and not self.nodes_kept
        pods, placed, kept = self.pods, self.pods_placed, self.pods_kept
        if self.alone * KEPT_PARTS_MIN >= pods:
            pods, placed, kept = self.alone, self.alone_placed, self.alone_kept
        pods = pods if self.nodes else placed
        return pods > 0 and (kept + self.nodes_kept) * KEPT_PARTS_MIN < pods + self.nodes_alone


def _missed(
    asking: Asking,
    plan: QueryPlan,
    within: Range,
    *,
    left: Sequence[Mapping[str, int]],
    scrape_seconds: int,
) -> set[str]:
    """Return the targets that left without a successor."""
    moments = [
        Moment(
            within.asked_seconds - max(group.values()), max(group.values()) - min(group.values())
        )
        for group in left
    ]
    query = plan.handovers(moments, scrape_seconds=scrape_seconds)
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
        for position, group in enumerate(left)
        for name in group
        if handovers[name, position].has_no_successor
    }


def missed_shards(
    observations: Iterable[Series], names: Names, *, scrape_seconds: int
) -> tuple[ScrapeTarget, ...]:
    """Return the shards that were not there all the time the others were, as targets.

    While their number changes, an hour is observed where all shards of one number are there.

    Raises:
        SourceUnavailableError: `bad_sample` for a number of shards that cannot be.
    """
    reported = _reported(observations, names)
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


def _reported(observations: Iterable[Series], names: Names) -> dict[tuple[int, int], set[int]]:
    """Return when each shard was reported, in Unix milliseconds, by total and ordinal."""
    by_metric: dict[str, dict[str, dict[int, int]]] = {SHARDS_TOTAL: {}, SHARD_ORDINAL: {}}
    for one in observations:
        if one.metric in by_metric:
            found = by_metric[one.metric].setdefault(names.label(one.labels, "instance"), {})
            found.update(zip(one.times, map(read_count, one.values), strict=True))
    reported: dict[tuple[int, int], set[int]] = defaultdict(set)
    for instance, totals in by_metric[SHARDS_TOTAL].items():
        ordinals = by_metric[SHARD_ORDINAL].get(instance, {})
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
