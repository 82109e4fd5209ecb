"""Workloads: who a device's series belong to, however labels clash, and from when to when."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from metering.adapters.prometheus.columns import Run
from metering.adapters.prometheus.names import UP, Names
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.samples import Fact

Workload = tuple[str, str]
"""Namespace and pod."""
NOBODY: Final[Workload] = ("", "")
SEVERAL: Final[Workload] = ("", "*")
"""Several pods at once; no pod can be called so."""
EXPORTER_CONTAINERS: Final = frozenset({"nvidia-dcgm-exporter", "dcgm-exporter", "exporter"})
"""Names the exporter's container has in its charts, for sites that keep no `up` of it."""


@dataclass(frozen=True, slots=True)
class Exporters:
    """The exporters' own pods, whose names Prometheus puts on series that name no pod."""

    pods: frozenset[Workload]

    def workload(self, labels: Mapping[str, str], names: Names) -> Workload:
        """Return who a series belongs to.

        Without `honor_labels` the workload is in `exported_*` and plain labels are the exporter's;
        with it an idle device inherits the exporter's plain labels. A series that numbers the
        share of a device is one of several, also while it is the only one.
        """
        namespace, pod = names.label(labels, "namespace"), names.label(labels, "pod")
        if not pod or not namespace:
            return NOBODY
        is_plain = pod == labels.get("pod") and not labels.get("exported_pod")
        if is_plain and self._is_own(namespace, pod, labels.get("container", "")):
            return NOBODY
        return SEVERAL if names.label(labels, "share") else (namespace, pod)

    def _is_own(self, namespace: str, pod: str, container: str) -> bool:
        if self.pods:
            return (namespace, pod) in self.pods
        return container in EXPORTER_CONTAINERS


def read_exporters(facts: Iterable[Fact]) -> Exporters:
    """Return the pods that DCGM's metrics are scraped from."""
    return Exporters(
        frozenset(
            (fact.labels.get("namespace", ""), fact.labels["pod"])
            for fact in facts
            if fact.metric == UP and fact.labels.get("pod")
        )
    )


def runs_of(seen: Sequence[tuple[Workload, Sequence[int]]], hours: Hours) -> Iterator[Run]:
    """Yield the stretches of one workload, clipped to the window.

    A sample speaks for the time until the next one, but not across a hole of more than two and a
    half scrapes to another workload, and not for more than a scrape after the last one.

    Args:
        seen: Who each series of a device belongs to, with the times of its samples.
        hours: The window.
    """
    stretches = _apart(seen) or _stretches(_named(seen))
    joined = list(_joined(stretches))
    for one, following in zip(joined, [*joined[1:], None], strict=True):
        end = one.last + hours.scrape
        if following is not None and following.first - one.last <= hours.scrape * 5 // 2:
            end = following.first
        begin, end = max(one.first, hours.start), min(end, hours.end)
        if begin < end:
            yield Run(one.workload, begin, end)


class _Stretch(NamedTuple):
    """The first and last sample that name one workload, with no other's between them."""

    first: int
    last: int
    workload: Workload


def _apart(seen: Sequence[tuple[Workload, Sequence[int]]]) -> Sequence[_Stretch]:
    """Return series that come one after another as they are; nothing where some overlap.

    That is nearly every device, and it spares looking at each sample.
    """
    found = sorted({_Stretch(times[0], times[-1], workload) for workload, times in seen})
    if any(later.first <= earlier.last for earlier, later in pairwise(found)):
        return ()
    return found


def _stretches(named: Mapping[int, Workload]) -> Sequence[_Stretch]:
    return [_Stretch(at, at, named[at]) for at in sorted(named)]


def _joined(stretches: Iterable[_Stretch]) -> Iterator[_Stretch]:
    """Yield the stretches with those of one workload that follow each other as one."""
    for workload, group in groupby(stretches, key=attrgetter("workload")):
        ours = list(group)
        yield _Stretch(ours[0].first, ours[-1].last, workload)


def _named(seen: Sequence[tuple[Workload, Sequence[int]]]) -> Mapping[int, Workload]:
    """Return who each time belongs to: the only pod named then, or several."""
    by_workload: dict[Workload, dict[int, Sequence[int]]] = defaultdict(dict)
    for workload, times in seen:
        by_workload[workload][id(times)] = times
    named: dict[int, Workload] = {}
    several: set[int] = set()
    for workload, parts in sorted(by_workload.items()):
        at_times = dict.fromkeys(at for times in parts.values() for at in times)
        several.update(at for at in at_times if named.get(at, NOBODY) != NOBODY)
        named.update(dict.fromkeys(at_times, workload))
    named.update(dict.fromkeys(several, SEVERAL))
    return named
