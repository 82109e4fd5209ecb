"""The usage source that reads Prometheus: timestamps give begin and end, samples presence.

Billed usage costs four queries a window, one more when a pod ended without an end time or labels
changed meanwhile, and one when a target left. Devices are queried separately. Only the connection
is kept between windows.
"""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from metering.adapters.prometheus.asking import Asking, request_headers
from metering.adapters.prometheus.clock import (
    measure_skew,
    node_on_api_clock,
    pod_on_api_clock,
    read_clock,
    ticks_on_api_clock,
    with_defects,
)
from metering.adapters.prometheus.completeness import check_one_cluster, refuse_incomplete
from metering.adapters.prometheus.devices.reading import DEVICE_SCRAPES, read_device_figures
from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.nodes import Hours, read_models, read_nodes
from metering.adapters.prometheus.parts import read_frame, read_part, settle_parts
from metering.adapters.prometheus.pods.queries import PodQueries, read_pods
from metering.adapters.prometheus.prefetching import (
    HourAnswers,
    HourQueries,
    ask_together,
    fit_together,
)
from metering.adapters.prometheus.queries import COVERAGE_JOBS, QueryPlan, plan_queries
from metering.adapters.prometheus.samples import Range, read_count, to_seconds, to_time
from metering.adapters.prometheus.session import Conversation, read_retention
from metering.adapters.prometheus.targets import check_targets, missed_shards
from metering.domain.catalogue.names import SANITISED_NAMES
from metering.domain.collection.parts import Part
from metering.protocols import (
    ClusterTarget,
    DeviceFigures,
    Evidence,
    Observation,
    ObservedSpan,
    UsageSource,
)
from metering.protocols.parts import Frame, PartObservation, Settled
from tenants.adapters.guarded import forbidden_networks
from tenants.domain.errors import SourceUnavailableError

logger = structlog.get_logger(__name__)

SOURCE: Final = "prometheus"
LEAD_SCRAPES: Final = 4
LEAD_SECONDS: Final = 240
"""How far before the window to query at least, so that its first seconds have samples on both
sides, and a hole over its begin shows how long it is."""
LAG_SCRAPES: Final = 5
LAG_SECONDS: Final = 600
"""How far after the window to query at most: longer than a restart of the exporter, which takes
minutes, and constant, so that a later query returns the same."""
LABELS_LATE_SECONDS: Final = 3600
"""How long after that the first labels of a node that had none still apply to its pods."""

COUNTED_SECONDS: Final = 600
"""How far back pods are counted: past a restart of the exporter."""
OBSERVE_SECONDS_MAX: Final = 150
"""Of the 200 s after which a task is stopped: what is left writes the hour. At 35 s a response four
queries fit in, which is more than billed usage needs."""
PREFETCH_SECONDS_MAX: Final = 45
"""For what is asked about several hours together: where that takes longer, there is time to observe
one of them alone before the task is stopped."""


class PrometheusUsageSource:
    """Usage as one Prometheus per cluster, or one for several, saw it."""

    def __init__(
        self,
        *,
        resources: str = SANITISED_NAMES,
        coverage_jobs: str = COVERAGE_JOBS,
        ca_bundle: str = "",
        forbidden: Sequence[str] = (),
        seconds_max: float = OBSERVE_SECONDS_MAX,
    ) -> None:
        """Prepare; no query is sent yet.

        Args:
            resources: Pattern of the sanitised resource names that are GPUs.
            coverage_jobs: Pattern of the scrape jobs of kube-state-metrics.
            ca_bundle: File of certificate authorities to trust instead of the public ones.
            forbidden: Networks no Prometheus may be in, beyond those that never may.
            seconds_max: How long all queries of one observation may take together.
        """
        self._resources = resources
        self._jobs = coverage_jobs
        self._ca_bundle = ca_bundle
        self._forbidden = forbidden_networks(forbidden)
        self._seconds_max = seconds_max
        self._conversations: dict[tuple[str, str], Conversation] = {}

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Return the observation; see `UsageSource.observe`.

        Raises:
            SourceUnavailableError: The response is missing, partial, has a warning or is invalid.
            ValueError: The window is empty, or `as_of` is less than two scrapes after its end.
        """
        span = ObservedSpan(start_at, end_at, as_of)
        around, afterwards = _ranges(target, span)
        asking, plan = self.begin(target)
        return read_observation(PodQueries(asking, plan, around, afterwards), target, span)

    def prefetch(self, target: ClusterTarget, spans: Sequence[ObservedSpan]) -> UsageSource:
        """Return a source that has asked about several hours; see `UsageSource.prefetch`.

        Raises:
            SourceUnavailableError: As `observe` does.
            ValueError: As `observe` does.
        """
        around = [_ranges(target, span)[0] for span in spans]
        if not fit_together(around):
            return self
        asking, plan = self.begin(target, seconds_max=PREFETCH_SECONDS_MAX)
        answers = ask_together(asking, plan, around, user_label=target.user_label)
        return _PrefetchedSource(
            self, target, dict(zip(spans, answers, strict=True)), evidence=asking.evidence
        )

    def count_pods(self, target: ClusterTarget, *, as_of: datetime) -> int:
        """Return how many pods asked for a GPU lately; see `DividingSource.count_pods`.

        Raises:
            SourceUnavailableError: As `observe` does.
        """
        asking, plan = self.begin(target)
        at = to_seconds(as_of)
        within = Range(at - COUNTED_SECONDS, at)
        rows = asking.rows(plan.pods(within.seconds), within)
        return sum(read_count(value) for _, value in rows)

    def observe_frame(
        self,
        target: ClusterTarget,
        *,
        start_at: datetime,
        end_at: datetime,
        as_of: datetime,
        clock_skew_seconds: int = 0,
    ) -> Frame:
        """Return all but the pods; see `DividingSource.observe_frame`.

        Raises:
            SourceUnavailableError: As `observe` does.
            ValueError: As `observe` does.
        """
        span = ObservedSpan(start_at, end_at, as_of)
        around, afterwards = _ranges(target, span)
        asking, plan = self.begin(target)
        asked = PodQueries(asking, replace(plan, part=None), around, afterwards)
        return read_frame(asked, target, span, skew=clock_skew_seconds, source=SOURCE)

    def observe_part(
        self, target: ClusterTarget, *, frame: Frame, as_of: datetime, part: Part
    ) -> PartObservation:
        """Return the pods of one part; see `DividingSource.observe_part`.

        Raises:
            SourceUnavailableError: As `observe` does.
            ValueError: As `observe` does.
        """
        hour = frame.observation
        around, afterwards = _ranges(target, ObservedSpan(hour.start_at, hour.end_at, as_of))
        asking, plan = self.begin(target)
        asked = PodQueries(asking, replace(plan, part=part), around, afterwards)
        return read_part(asked, target, frame)

    def settle(self, target: ClusterTarget, *, frame: Frame, traces: Iterable[bytes]) -> Settled:
        """Return what all parts show together; see `DividingSource.settle`.

        Raises:
            SourceUnavailableError: As `observe` does.
        """
        return settle_parts(target, frame=frame, traces=traces)

    def memory(self, target: ClusterTarget) -> timedelta | None:
        """Return Prometheus' retention by time; None where there is none, or another server.

        Raises:
            SourceUnavailableError: As `observe` does.
        """
        return read_retention(self.conversation(target).retention())

    def observe_devices(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> DeviceFigures:
        """Return what devices did; see `UsageSource.observe_devices`.

        Raises:
            SourceUnavailableError: As `observe` does.
            ValueError: As `observe` does.
        """
        scrape = target.scrape_interval_seconds
        start, end = _ended(target, start_at=start_at, end_at=end_at, as_of=as_of)
        asking, plan = self.begin(target)
        return read_device_figures(
            asking,
            plan,
            cluster=target.slug,
            hours=Hours(start * 1000, end * 1000, scrape * 1000),
            source=SOURCE,
        )

    def begin(
        self, target: ClusterTarget, *, seconds_max: float = math.inf
    ) -> tuple[Asking, QueryPlan]:
        """Return the conversation with a cluster's Prometheus and the queries that fit it."""
        names = names_of(target)
        plan = plan_queries(target, names, resources=self._resources, jobs=self._jobs)
        give_up_at = time.monotonic() + min(self._seconds_max, seconds_max)
        return Asking(self.conversation(target), names, give_up_at), plan

    def conversation(self, target: ClusterTarget) -> Conversation:
        """Return the conversation with a cluster's Prometheus, presenting its credentials."""
        headers = request_headers(target)
        known_as = (target.slug, target.prometheus_url)
        if known_as not in self._conversations:
            self._conversations[known_as] = Conversation(
                target.prometheus_url, self._forbidden, ca_bundle=self._ca_bundle
            )
        self._conversations[known_as].present(headers)
        return self._conversations[known_as]


class _PrefetchedSource:
    """Usage of some hours that were asked about together; all else is asked alone.

    What is read of an hour is released.
    """

    def __init__(
        self,
        alone: PrometheusUsageSource,
        target: ClusterTarget,
        answers: dict[ObservedSpan, HourAnswers],
        *,
        evidence: Sequence[Evidence],
    ) -> None:
        self._alone = alone
        self._target = target
        self._answers = answers
        self._evidence = evidence

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Return the observation; one that cannot be believed is asked for again, alone."""
        span = ObservedSpan(start_at, end_at, as_of)
        answers = self._answers.pop(span, None) if target == self._target else None
        if answers is not None:
            around, afterwards = _ranges(target, span)
            asking, plan = self._alone.begin(target)
            asking.evidence.extend(self._evidence)
            try:
                return read_observation(
                    HourQueries(asking, plan, around, afterwards, answers), target, span
                )
            except SourceUnavailableError as error:
                logger.warning(
                    "metering.prefetched.refused", cluster=target.slug, reason=error.reason
                )
        return self._alone.observe(target, start_at=start_at, end_at=end_at, as_of=as_of)

    def prefetch(self, target: ClusterTarget, spans: Sequence[ObservedSpan]) -> UsageSource:
        return self._alone.prefetch(target, spans)

    def memory(self, target: ClusterTarget) -> timedelta | None:
        return self._alone.memory(target)

    def observe_devices(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> DeviceFigures:
        return self._alone.observe_devices(target, start_at=start_at, end_at=end_at, as_of=as_of)


def _ranges(target: ClusterTarget, span: ObservedSpan) -> tuple[Range, Range]:
    """Return what the queries cover, and what lies between their time and now.

    Raises:
        ValueError: As for `_ended`.
    """
    scrape = target.scrape_interval_seconds
    start, end = _ended(target, start_at=span.start_at, end_at=span.end_at, as_of=span.as_of)
    lag = max(LAG_SECONDS, LAG_SCRAPES * scrape)
    lead = max(LEAD_SECONDS, LEAD_SCRAPES * scrape)
    around = Range(start - lead, min(to_seconds(span.as_of), end + lag))
    latest = min(to_seconds(span.as_of), around.asked_seconds + LABELS_LATE_SECONDS)
    return around, Range(around.asked_seconds, latest)


def _ended(
    target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
) -> tuple[int, int]:
    """Return a window that is over in Unix seconds.

    Raises:
        ValueError: The window is empty, or `as_of` is less than two scrapes after its end.
    """
    start, end = to_seconds(start_at), to_seconds(end_at)
    if start >= end or to_seconds(as_of) < end + DEVICE_SCRAPES * target.scrape_interval_seconds:
        raise ValueError("A window is asked for when it has ended two scrapes ago.")
    return start, end


def read_observation(asked: PodQueries, target: ClusterTarget, span: ObservedSpan) -> Observation:
    """Return what the queries around a window show of it.

    Raises:
        SourceUnavailableError: The response is missing, partial, has a warning or is invalid.
    """
    names, scrape = asked.plan.names, target.scrape_interval_seconds
    start, end = to_seconds(span.start_at), to_seconds(span.end_at)
    observations = asked.observations()
    clock = read_clock(observations.others, names, scrape_seconds=scrape)
    facts = asked.facts(user_label=target.user_label)
    pods, labels = read_pods(asked, target, observations, facts)
    refuse_incomplete(observations.pods, facts.pods)
    twins = check_one_cluster(observations.pods, observations.others, names, scrape_seconds=scrape)
    skew, contradicting = measure_skew(
        observations.pods, facts.pods, clock.targets, scrape_seconds=scrape
    )
    pods = with_defects(with_defects(pods, contradicting), twins)
    hours = Hours((start + skew) * 1000, (end + skew) * 1000, scrape * 1000)
    nodes = read_nodes(observations.others, labels, names, hours)
    targets = check_targets(
        asked.asking,
        asked.plan,
        asked.around,
        last_scraped=asked.targets(),
        scraped=clock.targets,
        scrape_seconds=scrape,
    )
    shards = missed_shards(observations.others, names, scrape_seconds=scrape)
    return Observation(
        cluster=target.slug,
        start_at=to_time(start * 1000),
        end_at=to_time(end * 1000),
        as_of=to_time(asked.around.asked_seconds * 1000),
        source=SOURCE,
        ticks=ticks_on_api_clock(clock.ticks, skew),
        expected_ticks=(end - start) // scrape,
        pods=tuple(pod_on_api_clock(pod, skew) for pod in pods) if skew else pods,
        nodes=tuple(node_on_api_clock(node, skew) for node in nodes),
        evidence=tuple(asked.asking.evidence),
        targets=tuple(
            replace(one, ticks=ticks_on_api_clock(one.ticks, skew)) for one in (*targets, *shards)
        ),
        clock_skew_seconds=skew,
        device_models=read_models(facts.others, names),
    )
