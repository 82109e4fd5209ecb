"""The queries, each a fixed template; docs/reference/metering-queries.md gives the reasons.

Only four things are filled in: checked metric names, the checked selector of a shared Prometheus,
patterns out of the settings, and whole seconds. Names of namespaces, pods, nodes and users never
reach a query: what belongs together is joined here, by label, in our own code.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.names import Names
from metering.domain.collection.parts import HEX, WHOLE, Part
from metering.protocols import ClusterTarget
from tenants.domain.errors import SourceUnavailableError

COVERAGE_JOBS: Final = ".*kube-state-metrics.*"
ANSWER_LABEL: Final = "answer"
"""The label that names each row of `counts`."""
OBSERVATIONS: Final = "observations"
FACTS: Final = "facts"
DETAILS: Final = "details"
TARGETS: Final = "targets"
DAY_SECONDS: Final = 86_400
"""How far back targets are queried: a shard that is missing for longer was reported for a day of
hours."""
TARGET_STEP_SECONDS: Final = 300
"""How exactly the last successful scrape of a target is known."""
SINCE_SECONDS: Final = 4 * 3600
"""How long another target may take to show what one showed that left: past any restart."""
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", re.ASCII)
_UUID: Final = re.compile(r"[a-zA-Z0-9-]{1,64}", re.ASCII)
LISTED_MAX: Final = 50
"""GPUs named in one query, so that its URL stays below the 8 kB that proxies accept."""
_VALUE: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9 ._:/@-]{0,127}", re.ASCII)


class Moment(NamedTuple):
    """When targets left: how long before the query's time, and how much earlier some of them."""

    age_seconds: int
    spread_seconds: int = 0


@dataclass(frozen=True)
class QueryPlan:
    """What is fixed for one cluster: names, the selector, and the patterns of the settings.

    Attributes:
        selector: Further matchers, each led by a comma; "" for a Prometheus of the cluster's own.
        resources: Pattern of sanitised resource names that are GPUs.
        jobs: Pattern of the scrape jobs of kube-state-metrics.
        part: The pods that are asked about; None for no pods.
    """

    names: Names
    selector: str
    resources: str
    jobs: str
    part: Part | None = WHOLE

    @property
    def is_part(self) -> bool:
        """Whether only some pods are asked about, so that all else is asked apart."""
        return self.part is not None and not self.part.is_whole

    def observations(self, range_seconds: int) -> str:
        """Return the query for raw samples of pods, nodes and their exporter.

        Includes the exporter's own shard metrics, where they are scraped.
        """
        of_pods = () if self.part is None else (known.REQUESTS, known.INIT_REQUESTS)
        of_others = (known.ALLOCATABLE, known.UP, known.SHARDS_TOTAL, known.SHARD_ORDINAL)
        matchers = ",".join(
            (
                _named(self.names, *of_pods, *(() if self.is_part else of_others)),
                f"resource=~{quoted('|' + self.resources)}",
                f"job=~{quoted(self.jobs)}",
            )
        )
        return f"{{{matchers}{self._uids()}{self.selector}}}[{range_seconds:d}s]"

    def serving(self, range_seconds: int) -> str:
        """Return which targets showed pods, and on which nodes; one row for each of both."""
        by = label_names(self.names, "instance", "node")
        return f"group by ({by}) ({self._requests(range_seconds)})"

    def pods(self, range_seconds: int) -> str:
        """Return how many pods ask for a GPU."""
        return f"count(group by (uid) ({self._requests(range_seconds)}))"

    def _requests(self, range_seconds: int) -> str:
        matchers = f"resource=~{quoted(self.resources)},job=~{quoted(self.jobs)}{self.selector}"
        named = _named(self.names, known.REQUESTS, known.INIT_REQUESTS)
        return _last(named, matchers, range_seconds)

    def _uids(self, *, or_none: bool = False) -> str:
        """Return the matcher of the pods that are asked about, or of what belongs to no pod."""
        if self.part is None or self.part.is_whole:
            return ""
        if self.part.is_rest:
            return f",uid!~{quoted(f'{self.part.beginning}.*')}"
        return f",uid=~{quoted(('|' if or_none else '') + f'{self.part.beginning}.*')}"

    def facts(self, range_seconds: int) -> str:
        """Return the last value of everything that does not change while a pod lives.

        Pods are restricted to those that request a GPU, phases to the one a pod ended in, and node
        labels to nodes that offer one. Of nodes and devices nothing is in a part: they are asked
        about with what is no pod's.
        """
        asked = _last(
            _named(self.names, known.REQUESTS, known.INIT_REQUESTS),
            f"resource=~{quoted(self.resources)}{self._uids()}{self.selector}",
            range_seconds,
        )
        pods = _last(
            _named(
                self.names,
                known.POD_INFO,
                known.POD_LABELS,
                known.CREATED,
                known.SCHEDULED,
                known.COMPLETED,
                known.INIT_INFO,
            ),
            f'restart_policy=~"|Always"{self._uids()}{self.selector}',
            range_seconds,
        )
        ended = _last(
            _named(self.names, known.POD_PHASE),
            f'phase=~"Succeeded|Failed"{self._uids()}{self.selector}',
            range_seconds,
        )
        # Each `or` copies what stands before it, so what has most rows stands last, joined alone.
        of_others = (self._models(range_seconds), self._offering(range_seconds))
        of_pods = (f"(({ended} == 1) and on (uid) {asked})", f"({pods} and on (uid) {asked})")
        return " or ".join(
            (*(() if self.is_part else of_others), *(() if self.part is None else of_pods))
        )

    def _offering(self, range_seconds: int) -> str:
        """Return the labels of nodes that offer a GPU."""
        offered = _last(
            _named(self.names, known.ALLOCATABLE),
            f"resource=~{quoted(self.resources)}{self.selector}",
            range_seconds,
        )
        nodes = _last(_named(self.names, known.NODE_LABELS), self.selector[1:], range_seconds)
        return f"({nodes} and on (node) {offered})"

    def targets(self) -> str:
        """Return when each target was last scraped within the last day, and how many there are."""
        up = f"{{{_named(self.names, known.UP)},job=~{quoted(self.jobs)}{self.selector}}}"
        answered = (
            f"max_over_time((timestamp({up}) and {up} == 1)"
            f"[{DAY_SECONDS:d}s:{TARGET_STEP_SECONDS:d}s])"
        )
        return f"{answered} or {counts({TARGETS: answered})}"

    def handovers(self, moments: Sequence[Moment], *, scrape_seconds: int) -> str:
        """Return what each target exported at some moments, and how much of it was observed later.

        Args:
            moments: When targets left.
            scrape_seconds: How far scrapes are apart.
        """
        by = label_names(self.names, "instance")
        return " or ".join(
            f"label_replace(count by ({by}) ({carried}),"
            f'"{ANSWER_LABEL}","{position:d} {name}","","")'
            for position, moment in enumerate(moments)
            for name, carried in self._handover(moment, by, scrape_seconds=scrape_seconds)
        )

    def _handover(
        self, moment: Moment, by: str, *, scrape_seconds: int
    ) -> Iterator[tuple[str, str]]:
        """Yield the parts of one handover.

        What another target shows up to a scrape after the moment is shown by both.
        """
        age, spread = moment.age_seconds, moment.spread_seconds + 2 * scrape_seconds
        known_until = age - TARGET_STEP_SECONDS - scrape_seconds
        reach = min(SINCE_SECONDS, known_until - 1)  # An offset of 0 is no offset.
        requests, offers = (known.REQUESTS, known.INIT_REQUESTS), (known.ALLOCATABLE,)
        pods, nodes = (self._carried(one, spread, age) for one in (requests, offers))
        around_pods, around_nodes = (
            self._carried(one, spread + scrape_seconds, age - scrape_seconds)
            for one in (requests, offers)
        )
        later_pods, later_nodes = (
            self._carried(one, reach, known_until - reach) for one in (requests, offers)
        )
        alone = f"{pods} unless on (uid) ({_shared(around_pods, 'uid', by)})"
        nodes_alone = f"{nodes} unless on (node) ({_shared(around_nodes, 'node', by)})"
        last_info = self._last_info(2 * scrape_seconds, known_until - reach)
        yield "pods", pods
        yield "pods_kept", f"{pods} and on (uid) {later_pods}"
        yield "pods_placed", f"{pods} and on (node) {later_nodes}"
        yield "alone", alone
        yield "alone_kept", f"({alone}) and on (uid) {later_pods}"
        yield "alone_placed", f"({alone}) and on (node) {later_nodes}"
        yield "nodes", nodes
        yield "nodes_alone", nodes_alone
        yield "nodes_kept", f"({nodes_alone}) and on (node) {later_nodes}"
        yield "nodes_in_use", f"({nodes_alone}) and on (node) {last_info}"

    def _carried(self, metrics: tuple[str, ...], range_seconds: int, age_seconds: int) -> str:
        matchers = f"{_named(self.names, *metrics)},resource=~{quoted(self.resources)}"
        return (
            f"last_over_time({{{matchers}{self.selector}}}[{range_seconds:d}s]"
            f" offset {age_seconds:d}s)"
        )

    def _last_info(self, range_seconds: int, age_seconds: int) -> str:
        """Return the pods of any kind, GPU or not, that some target showed last."""
        matchers = f"{_named(self.names, known.POD_INFO)}{self.selector}"
        return f"last_over_time({{{matchers}}}[{range_seconds:d}s] offset {age_seconds:d}s)"

    def _models(self, range_seconds: int) -> str:
        """Return one row for each node and model of a GPU, under the name of its first metric.

        Over the whole range: what decides a size may not rest on one moment, at which an exporter
        can be down.
        """
        labels = label_names(self.names, "hostname", "model")
        shown = _last(
            _named(self.names, known.BUSY_PERCENT, known.BUSY_RATIO, known.ENERGY),
            self.selector[1:],
            range_seconds,
        )
        named = quoted(self.names.metrics[known.BUSY_PERCENT][0])
        return f'label_replace(group by ({labels}) ({shown}),"__name__",{named},"","")'

    def exporters(self, range_seconds: int) -> str:
        """Return the last `up` of the targets that DCGM's metrics come from."""
        measured = _last(
            _named(self.names, known.BUSY_PERCENT, known.BUSY_RATIO),
            self.selector[1:],
            range_seconds,
        )
        exporters = _last(_named(self.names, known.UP), f'pod!=""{self.selector}', range_seconds)
        return f"{exporters} and on (job,instance) {measured}"

    def device_series(self) -> str:
        """Return how many series show a device, at one sample each."""
        return f"count({{{_named(self.names, *known.PRESENCE)}{self.selector}}})"

    def device_parts(self, digits: int) -> tuple[str, ...]:
        """Return matchers that divide devices by the first digits of their UUID, and the rest.

        PromQL cannot hash, and a GPU's UUID is random: "GPU-" and hexadecimal digits. Whatever is
        named otherwise is the last part, so that no device is in two parts or in none.

        Args:
            digits: 0 for a single part of all devices.
        """
        label = self.names.labels["uuid"][0]
        if digits == 0 or _LABEL.fullmatch(label) is None:
            return ("",)
        beginnings = ("".join(found) for found in product(HEX, repeat=digits))
        others = f",{label}!~{quoted(f'GPU-[{HEX}]{{{digits}}}.*')}"
        return (*(f",{label}=~{quoted(f'GPU-{one}.*')}" for one in beginnings), others)

    def device_lists(self, uuids: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return matchers of some GPUs; None where one cannot be named in a query.

        Args:
            uuids: Each GPU's UUID, with the label that holds it.
        """
        if not all(map(_LABEL.fullmatch, uuids.values())) or not all(map(_UUID.fullmatch, uuids)):
            return None
        by_label = {
            label: sorted(uuid for uuid, holding in uuids.items() if holding == label)
            for label in sorted(set(uuids.values()))
        }
        return tuple(
            f",{label}=~{quoted('|'.join(found[first : first + LISTED_MAX]))}"
            for label, found in by_label.items()
            for first in range(0, len(found), LISTED_MAX)
        )

    def devices(self, metrics: tuple[str, ...], part: str, range_seconds: int) -> str:
        """Return the raw samples of what devices showed.

        Args:
            metrics: Some of PRESENCE and FIGURES, in our spelling.
            part: One of `device_parts` or `device_lists`.
            range_seconds: How far to look back.
        """
        return f"{{{_named(self.names, *metrics)}{part}{self.selector}}}[{range_seconds:d}s]"

    def selected(self, metric: str, part: str) -> str:
        """Return the selector of one metric of some devices."""
        return f"{{{_named(self.names, metric)}{part}{self.selector}}}"

    def details(self, metrics: tuple[str, ...], range_seconds: int) -> str:
        """Return the raw samples of facts that changed, or that have no timestamp.

        Args:
            metrics: Some of POD_PHASE, POD_LABELS and NODE_LABELS, by our names.
            range_seconds: How far to look back.
        """
        matcher = _named(self.names, *metrics)
        uids = self._uids(or_none=True)
        return f'{{{matcher},phase=~"|Succeeded|Failed"{uids}{self.selector}}}[{range_seconds:d}s]'


def plan_queries(target: ClusterTarget, names: Names, *, resources: str, jobs: str) -> QueryPlan:
    """Return the queries of one cluster.

    Raises:
        SourceUnavailableError: `bad_target` when the selector cannot be put into a query.
    """
    return QueryPlan(names=names, selector=_selector(target), resources=resources, jobs=jobs)


def counts(asked: Mapping[str, str]) -> str:
    """Return how many series the server holds for each of some responses.

    One row for each, also where there are none: a row that is missing was taken out.

    Args:
        asked: By name, queries with one evaluation time; raw ranges or instant vectors.
    """
    return " or ".join(
        f'label_replace(count({_as_vector(query)}) or vector(0),"{ANSWER_LABEL}","{name}","","")'
        for name, query in asked.items()
    )


def quoted(text: str) -> str:
    r"""Return a PromQL string literal, by Go's rules: `\` and `"` escaped, no control characters.

    Raises:
        ValueError: The text holds a control character.
    """
    if not text.isprintable():
        raise ValueError("A control character has no place in a query.")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def label_names(names: Names, *ours: str, plain: Sequence[str] = ()) -> str:
    """Return every name a site may use for some labels, and further ones, for `by (...)`."""
    found = (*(label for name in ours for label in names.labels[name]), *plain)
    return ",".join(label for label in dict.fromkeys(found) if _LABEL.fullmatch(label))


def _named(names: Names, *metrics: str) -> str:
    return f"__name__=~{quoted('|'.join(names.spelled(*metrics)))}"


def _shared(carried: str, what: str, by: str) -> str:
    """Return what more than one target carried."""
    return f"count by ({what}) (count by ({what},{by}) ({carried})) > 1"


def _as_vector(query: str) -> str:
    """Return one sample for each series of a raw range; their names are kept apart."""
    return f"last_over_time({query})" if query.endswith("]") else query


def _last(named: str, matchers: str, range_seconds: int) -> str:
    inside = f"{named},{matchers}" if matchers else named
    return f"last_over_time({{{inside}}}[{range_seconds:d}s])"


def _selector(target: ClusterTarget) -> str:
    """Return `,label="value"` for a shared Prometheus; half a selector would match all."""
    label, value = target.selector_label, target.selector_value
    if not label and not value:
        return ""
    if _LABEL.fullmatch(label) is None or label.startswith("__"):
        raise SourceUnavailableError("The selector's label is no label name.", reason="bad_target")
    if _VALUE.fullmatch(value) is None:
        raise SourceUnavailableError(
            "The selector's value may hold letters, digits, spaces and . _ : / @ - only.",
            reason="bad_target",
        )
    return f",{label}={quoted(value)}"
