"""The queries about pods and nodes around one window, and their responses as they are read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.asking import Asking
from metering.adapters.prometheus.completeness import check_counts
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.pods import (
    REQUEST_METRICS,
    PodFacts,
    SeenPod,
    read_facts,
    read_observations,
)
from metering.adapters.prometheus.queries import DETAILS, FACTS, OBSERVATIONS, QueryPlan
from metering.adapters.prometheus.samples import Fact, Range, Series
from metering.adapters.prometheus.targets import ask_targets

FACTS_OF_NODES = (known.NODE_LABELS, known.BUSY_PERCENT)


@dataclass(frozen=True)
class Observations:
    """The first response, split as it arrived; `others` do not grow with the pods."""

    pods: Mapping[str, SeenPod]
    others: Sequence[Series]


@dataclass(frozen=True)
class Facts:
    """The second response, likewise."""

    pods: Mapping[str, PodFacts]
    others: Sequence[Fact]


@dataclass(frozen=True)
class PodQueries:
    """The queries around one window, asked for it alone.

    Attributes:
        around: What they cover.
        afterwards: What lies between the time of the queries and now; empty when it is queried at
            once.
    """

    asking: Asking
    plan: QueryPlan
    around: Range
    afterwards: Range

    def observations(self) -> Observations:
        """Return requests of pods, offers of nodes and scrapes.

        Raises:
            SourceUnavailableError: No response, or an invalid one; so for all queries.
        """
        series = self.asking.matrix(self.plan.observations, self.around, name=OBSERVATIONS)
        return split_observations(series, self.plan.names)

    def facts(self, *, user_label: str) -> Facts:
        """Return what does not change while a pod lives."""
        others: list[Fact] = []

        def of_pods() -> Iterator[Fact]:
            for fact in self.asking.vector(self.plan.facts, self.around, name=FACTS):
                if fact.metric in FACTS_OF_NODES:
                    others.append(fact)
                else:
                    yield fact

        pods = read_facts(of_pods(), self.plan.names, user_label=user_label, within=self.around)
        return Facts(pods, others)

    def details(self, metrics: tuple[str, ...]) -> Iterator[Series]:
        """Yield the raw samples of facts that changed, or that have no timestamp."""
        template = partial(self.plan.details, metrics)
        return self.asking.matrix(template, self.around, name=DETAILS)

    def later_labels(self) -> Iterator[Series]:
        """Yield the labels of nodes from the time of the queries until now."""
        template = partial(self.plan.details, (known.NODE_LABELS,))
        return self.asking.matrix(template, self.afterwards)

    def check_counts(self) -> None:
        """Compare all of the above that was read with the server's own counts."""
        check_counts(self.asking)

    def targets(self) -> Mapping[str, int]:
        """Return when each target of the last day was last scraped, Unix seconds."""
        return ask_targets(self.asking, self.plan, self.around)


def split_observations(series: Iterable[Series], names: Names) -> Observations:
    """Read the samples once: of pods only what is needed, and one series per instance.

    Raises:
        SourceUnavailableError: `bad_answer` when no request carries a uid.
    """
    serving: dict[str, Series] = {}
    others: list[Series] = []

    def requests() -> Iterator[Series]:
        for one in series:
            if one.metric in REQUEST_METRICS:
                serving.setdefault(names.label(one.labels, "instance"), one)
                yield one
            else:
                others.append(one)

    pods = read_observations(requests(), names)
    return Observations(pods, [*others, *serving.values()])
