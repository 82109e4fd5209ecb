"""The queries about pods and nodes around one window, and their responses as they are read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.asking import Asking
from metering.adapters.prometheus.completeness import check_counts
from metering.adapters.prometheus.nodes import (
    NodeLabels,
    label_sets,
    plain_labels,
    timed_label_sets,
)
from metering.adapters.prometheus.pods.composing import compose_pods
from metering.adapters.prometheus.pods.facts import (
    PodFacts,
    PodHistory,
    questions,
    read_facts,
    read_history,
)
from metering.adapters.prometheus.pods.requests import (
    REQUEST_METRICS,
    RequestReader,
    SeenPod,
    read_observations,
)
from metering.adapters.prometheus.queries import DETAILS, FACTS, OBSERVATIONS, QueryPlan
from metering.adapters.prometheus.samples import Fact, Range, Series
from metering.adapters.prometheus.targets import ask_targets
from metering.domain.catalogue.sizing import names_product
from metering.protocols import ClusterTarget, PodObservation

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
        names = RequestReader(self.plan.names)
        return split_observations(series, names, is_part=self.plan.is_part)

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


def split_observations(
    series: Iterable[Series], names: RequestReader, *, is_part: bool = False
) -> Observations:
    """Read the samples once: of pods only what is needed, and one series per instance.

    Raises:
        SourceUnavailableError: `bad_answer` when no request carries a uid.
    """
    serving: dict[str, Series] = {}
    others: list[Series] = []

    def requests() -> Iterator[Series]:
        for one in series:
            if one.metric in REQUEST_METRICS:
                serving.setdefault(names.read(one.labels).target, one)
                yield one
            else:
                others.append(one)

    pods = read_observations(requests(), names, is_part=is_part)
    return Observations(pods, [*others, *serving.values()])


def read_pods(
    asked: PodQueries, target: ClusterTarget, observations: Observations, facts: Facts
) -> tuple[tuple[PodObservation, ...], NodeLabels]:
    """Return the pods and the labels of their nodes, querying details where facts are ambiguous."""
    nodes = {
        node for uid in observations.pods if uid in facts.pods for node in facts.pods[uid].nodes
    }
    open_questions = questions(observations.pods, facts.pods)
    labels, history = read_labels(asked, target, facts, open_questions, nodes)
    return compose_pods(observations.pods, facts.pods, history, labels), labels


def read_labels(
    asked: PodQueries,
    target: ClusterTarget,
    facts: Facts,
    open_questions: Sequence[str],
    nodes: Iterable[str],
) -> tuple[NodeLabels, PodHistory]:
    """Return the labels of nodes, and what pods were before, once all responses are complete.

    Args:
        asked: The queries.
        target: The cluster.
        facts: The second response.
        open_questions: Metrics of pods whose raw samples are needed.
        nodes: Nodes with pods, whose labels have to name a product.
    """
    names, history = asked.plan.names, PodHistory()
    labels = label_sets(facts.others, names)
    unsettled = () if labels.is_settled() else (known.NODE_LABELS,)
    if open_questions or unsettled:
        details = list(asked.details((*open_questions, *unsettled)))
        history = read_history(details, user_label=target.user_label)
        if unsettled:
            beside = target.scrape_interval_seconds * 500
            labels = timed_label_sets(details, names, beside=beside)
    asked.check_counts()
    if asked.afterwards.seconds and not all(map(labels.names_product, nodes)):
        later = (one for one in asked.later_labels() if names_product(plain_labels(one.labels)))
        labels = labels.completed(timed_label_sets(later, names))
    return labels, history
