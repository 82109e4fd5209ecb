"""The usage source that reads Prometheus: object timestamps for when, samples for still there.

Each window costs five queries, six when a pod ended without telling when, or when labels changed
meanwhile. Nothing is kept between windows but the connection.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.body import Answer
from metering.adapters.prometheus.clock import read_ticks
from metering.adapters.prometheus.credentials import request_headers
from metering.adapters.prometheus.devices import read_devices
from metering.adapters.prometheus.guard import forbidden_networks
from metering.adapters.prometheus.health import health_names, health_query, read_health
from metering.adapters.prometheus.names import Names, names_of
from metering.adapters.prometheus.nodes import (
    Hours,
    NodeLabels,
    label_sets,
    read_nodes,
    timed_label_sets,
)
from metering.adapters.prometheus.pod_sights import REQUEST_METRICS, SeenPod, read_sights
from metering.adapters.prometheus.pods import (
    PodFacts,
    PodHistory,
    compose_pods,
    questions,
    read_facts,
    read_history,
)
from metering.adapters.prometheus.queries import (
    COVERAGE_JOBS,
    GPU_RESOURCES,
    QueryPlan,
    plan_queries,
)
from metering.adapters.prometheus.samples import (
    Fact,
    Range,
    Series,
    read_vector,
    stream_matrix,
    to_seconds,
    to_time,
)
from metering.adapters.prometheus.session import Conversation
from metering.adapters.prometheus.workloads import read_exporters
from metering.protocols import ClusterTarget, Evidence, Observation, PodObservation
from metering.protocols.health import HealthObservation

SOURCE: Final = "prometheus"
LEAD_SCRAPES: Final = 4
"""How far before the window is looked, so that its first seconds have sights on both sides."""
LAG_SCRAPES: Final = 5
LAG_SECONDS: Final = 600
"""How far after the window is looked at most: past a restart of the exporter, which takes minutes,
and always the same, so that asking again later tells the same."""
DEVICE_SCRAPES: Final = 2
"""How far around the window devices are looked at: their last sample before and first after it."""


class PrometheusUsageSource:
    """Usage as one Prometheus per cluster, or one for several, saw it."""

    def __init__(
        self,
        *,
        resources: str = GPU_RESOURCES,
        coverage_jobs: str = COVERAGE_JOBS,
        ca_bundle: str = "",
        forbidden: Sequence[str] = (),
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            resources: Pattern of the sanitised resource names that are GPUs.
            coverage_jobs: Pattern of the scrape jobs of kube-state-metrics.
            ca_bundle: File of certificate authorities to trust instead of the public ones.
            forbidden: Networks no Prometheus may be in, beyond those that never may.
        """
        self._resources = resources
        self._jobs = coverage_jobs
        self._ca_bundle = ca_bundle
        self._forbidden = forbidden_networks(forbidden)
        self._conversations: dict[tuple[str, str], Conversation] = {}

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Return what was seen; see `UsageSource.observe`.

        Raises:
            SourceUnavailableError: The answer is missing, partial, warned about or cannot be
                believed.
            ValueError: The window is empty, or `as_of` is less than two scrapes after its end.
        """
        scrape = target.scrape_interval_seconds
        start, end = to_seconds(start_at), to_seconds(end_at)
        latest = to_seconds(as_of)
        if start >= end or latest < end + DEVICE_SCRAPES * scrape:
            raise ValueError("A window is asked for when it has ended two scrapes ago.")
        lag = max(LAG_SECONDS, LAG_SCRAPES * scrape)
        around = Range(start - LEAD_SCRAPES * scrape, min(latest, end + lag))
        near = Range(start - DEVICE_SCRAPES * scrape, end + DEVICE_SCRAPES * scrape)
        names = names_of(target)
        plan = plan_queries(target, names, resources=self._resources, jobs=self._jobs)
        asking = _Asking(self._conversation(target), plan, around, near, [])
        return _read(asking, target, start=start, end=end)

    def _conversation(self, target: ClusterTarget) -> Conversation:
        """Return the conversation with a cluster's Prometheus, presenting its credentials."""
        headers = request_headers(target)
        known_as = (target.slug, target.prometheus_url)
        if known_as not in self._conversations:
            self._conversations[known_as] = Conversation(
                target.prometheus_url, self._forbidden, ca_bundle=self._ca_bundle
            )
        self._conversations[known_as].present(headers)
        return self._conversations[known_as]


@dataclass(frozen=True)
class _Asking:
    """The queries of one window, and the evidence they leave."""

    conversation: Conversation
    plan: QueryPlan
    around: Range
    near: Range
    evidence: list[Evidence]

    @property
    def names(self) -> Names:
        return self.plan.names

    def sights(self) -> Iterator[Series]:
        return self._matrix(self.plan.sights(self.around.seconds), self.around)

    def facts(self) -> Iterator[Fact]:
        answer = self._ask(self.plan.facts(self.around.seconds), self.around)
        rows = 0
        for one in read_vector(answer, self.names):
            rows += 1
            yield one
        self._note(self.plan.facts(self.around.seconds), self.around, answer, rows)

    def devices(self, metrics: tuple[str, ...]) -> Iterator[Series]:
        return self._matrix(self.plan.devices(metrics, self.near.seconds), self.near)

    def details(self, metrics: tuple[str, ...]) -> Iterator[Series]:
        return self._matrix(self.plan.details(metrics, self.around.seconds), self.around)

    def health(self, *, step_seconds: int) -> HealthObservation:
        names = health_names(self.names)
        query = health_query(
            names,
            selector=self.plan.selector,
            range_seconds=self.near.seconds,
            step_seconds=step_seconds,
        )
        answer = self._ask(query, self.near)
        series = list(stream_matrix(answer, names, self.near))
        self._note(query, self.near, answer, sum(len(one.times) for one in series))
        return HealthObservation(
            signals=read_health(series, names, step_seconds=step_seconds),
            step_seconds=step_seconds,
            query=query,
            asked_at=self.evidence[-1].at,
            sha256=answer.sha256,
        )

    def _matrix(self, query: str, within: Range) -> Iterator[Series]:
        answer = self._ask(query, within)
        samples = 0
        for one in stream_matrix(answer, self.names, within):
            samples += len(one.times)
            yield one
        self._note(query, within, answer, samples)

    def _ask(self, query: str, within: Range) -> Answer:
        return self.conversation.ask(query, at_seconds=within.asked_seconds)

    def _note(self, query: str, within: Range, answer: Answer, samples: int) -> None:
        """Keep the evidence of an answer that was read to its end."""
        at = to_time(within.asked_seconds * 1000)
        self.evidence.append(Evidence(query=query, at=at, sha256=answer.sha256, samples=samples))


@dataclass(frozen=True)
class _Sights:
    """The first answer, taken apart as it arrived; `others` do not grow with the pods."""

    pods: Mapping[str, SeenPod]
    others: Sequence[Series]


@dataclass(frozen=True)
class _Facts:
    """The second answer, likewise."""

    pods: Mapping[str, PodFacts]
    others: Sequence[Fact]


def _read(asking: _Asking, target: ClusterTarget, *, start: int, end: int) -> Observation:
    names, scrape = asking.names, target.scrape_interval_seconds
    sights = _take_sights(asking)
    ticks = read_ticks(sights.others, names, scrape_seconds=scrape)
    facts = _take_facts(asking, user_label=target.user_label)
    hours = Hours(start * 1000, end * 1000, scrape * 1000)
    pods, labels = _read_pods(asking, target, sights, facts)
    seen = read_devices(
        asking.devices(known.PRESENCE),
        asking.devices(known.FIGURES),
        read_exporters(facts.others),
        names,
        hours,
    )
    health = asking.health(step_seconds=scrape)
    return Observation(
        cluster=target.slug,
        start_at=to_time(hours.start),
        end_at=to_time(hours.end),
        as_of=to_time(asking.around.asked_seconds * 1000),
        source=SOURCE,
        ticks=ticks,
        expected_ticks=(end - start) // scrape,
        pods=pods,
        nodes=read_nodes(sights.others, labels, names, hours),
        devices=seen.observations,
        energies=seen.energies,
        missing_figures=seen.missing_figures,
        evidence=tuple(asking.evidence),
        health=health,
    )


def _take_sights(asking: _Asking) -> _Sights:
    """Read the sights once: of pods only what is needed, and one series of each instance's."""
    names = asking.names
    serving: dict[str, Series] = {}
    others: list[Series] = []

    def requests() -> Iterator[Series]:
        for one in asking.sights():
            if one.metric in REQUEST_METRICS:
                serving.setdefault(names.label(one.labels, "instance"), one)
                yield one
            else:
                others.append(one)

    pods = read_sights(requests(), names)
    return _Sights(pods, [*others, *serving.values()])


def _take_facts(asking: _Asking, *, user_label: str) -> _Facts:
    """Read the facts once, those of pods at once and the rest later."""
    others: list[Fact] = []

    def of_pods() -> Iterator[Fact]:
        for fact in asking.facts():
            if fact.metric in (known.UP, known.NODE_LABELS):
                others.append(fact)
            else:
                yield fact

    pods = read_facts(of_pods(), asking.names, user_label=user_label, within=asking.around)
    return _Facts(pods, others)


def _read_pods(
    asking: _Asking, target: ClusterTarget, sights: _Sights, facts: _Facts
) -> tuple[tuple[PodObservation, ...], NodeLabels]:
    """Return the pods and the labels of their nodes, asking for details where facts leave doubt."""
    labels = label_sets(facts.others, asking.names)
    history = PodHistory()
    doubts = _doubts(sights.pods, facts.pods, labels)
    if doubts:
        details = list(asking.details(doubts))
        history = read_history(details, user_label=target.user_label)
        if known.NODE_LABELS in doubts:
            labels = timed_label_sets(details, asking.names)
    return compose_pods(sights.pods, facts.pods, history, labels), labels


def _doubts(
    seen: Iterable[str], told: Mapping[str, PodFacts], labels: NodeLabels
) -> tuple[str, ...]:
    unsettled = () if labels.is_settled() else (known.NODE_LABELS,)
    return (*questions(seen, told), *unsettled)
