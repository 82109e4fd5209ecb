"""Hours that are asked about together are observed as each of them is alone."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from metering.adapters.prometheus import PrometheusUsageSource, prefetching
from metering.adapters.prometheus import source as source_module
from metering.adapters.prometheus.asking import Asking
from metering.adapters.prometheus.prefetching import HourAnswers
from metering.adapters.prometheus.queries import QueryPlan
from metering.adapters.prometheus.samples import Range, to_time
from metering.protocols import ClusterTarget, Observation, ObservedSpan, UsageSource
from tenants.domain.errors import SourceUnavailableError
from tests.contract.usage_source.conftest import Seen, asked, target_of
from tests.support.sampling import sampled
from tests.support.usage_source.holding import VERSIONS, holding
from tests.support.usage_source.hour_cases import (
    HOURS,
    SCRAPE,
    START,
    USER_LABEL,
    ClusterCase,
    Event,
    PodCase,
    clusters,
    openmetrics,
)

CLUSTERS = 8
PODS = 10
IMPORTS = 4
"""Each import is a Prometheus of its own; its clusters are the examples."""


def spans(count: int = HOURS) -> list[ObservedSpan]:
    hours = [to_time((START + 3600 * number) * 1000) for number in range(count)]
    return [ObservedSpan(at, at + timedelta(hours=1), at + timedelta(minutes=75)) for at in hours]


def target(url: str, number: int) -> ClusterTarget:
    return ClusterTarget(
        slug=f"c{number}",
        prometheus_url=url,
        scrape_interval_seconds=SCRAPE,
        selector_label="cluster",
        selector_value=f"c{number}",
        user_label=USER_LABEL,
    )


def observe(
    source: UsageSource, of: ClusterTarget, span: ObservedSpan
) -> Observation | SourceUnavailableError:
    """Return what a source sees of an hour, or why it does not."""
    try:
        return source.observe(of, start_at=span.start_at, end_at=span.end_at, as_of=span.as_of)
    except SourceUnavailableError as error:
        return error


def is_of_pass(observation: Observation) -> bool:
    return any(one.step_seconds for one in observation.evidence)


def assert_same(url: str, found: Sequence[ClusterCase]) -> int:
    """Compare both ways for each cluster; return how many hours were observed."""
    source, observed = PrometheusUsageSource(), 0
    for number, case in enumerate(found):
        of = target(url, number)
        alone = [observe(source, of, span) for span in spans()]
        together = source.prefetch(of, spans())
        for span, single in zip(spans(), alone, strict=True):
            ours = observe(together, of, span)
            if isinstance(single, SourceUnavailableError):
                assert isinstance(ours, SourceUnavailableError), (span, case)
                assert (ours.reason, str(ours)) == (single.reason, str(single)), (span, case)
                continue
            assert isinstance(ours, Observation), (ours, span, case)
            assert is_of_pass(ours), (span, case)
            assert replace(ours, evidence=()) == replace(single, evidence=()), (span, case)
            observed += 1
    return observed


@pytest.mark.parametrize("version", sampled(VERSIONS, every=2))
@settings(max_examples=IMPORTS, phases=(Phase.generate,), deadline=None)
@given(found=st.lists(clusters(PODS), min_size=CLUSTERS, max_size=CLUSTERS))
def test_hours_are_observed_together_as_they_are_alone(
    version: int, found: list[ClusterCase]
) -> None:
    plain = ClusterCase(tuple(PodCase(START - 600, START + 9000 + n) for n in range(PODS)))

    with holding(openmetrics([*found, plain]), version=version) as url:
        observed = assert_same(url, [*found, plain])

    assert observed >= HOURS


def some_pods(count: int = PODS) -> ClusterCase:
    """Return a cluster in which something happens in each hour."""
    moved = Event("owner", START + 5000, START + 9000)
    return ClusterCase(
        tuple(
            PodCase(START - 600 + 900 * number, START + 9000 + 600 * number, (moved,))
            for number in range(count)
        )
    )


@pytest.mark.parametrize("samples_max", [4_000, 1_200])
def test_hours_that_are_refused_together_are_asked_in_parts(samples_max: int) -> None:
    with holding(openmetrics([some_pods()]), samples_max=samples_max) as url:
        of, source = target(url, 0), PrometheusUsageSource()
        together = source.prefetch(of, spans())
        ours = [observe(together, of, span) for span in spans()]
        alone = [observe(source, of, span) for span in spans()]

    for one, single in zip(ours, alone, strict=True):
        assert isinstance(one, Observation)
        assert isinstance(single, Observation)
        assert replace(one, evidence=()) == replace(single, evidence=())
        assert is_of_pass(one)
    assert isinstance(ours[0], Observation)
    parts = sum("allocatable|up" in one.query for one in ours[0].evidence)
    assert parts > 1


def test_more_series_than_are_read_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetching, "SERIES_HOURS_MAX", 20)

    with (
        holding(openmetrics([some_pods()])) as url,
        pytest.raises(SourceUnavailableError) as refused,
    ):
        PrometheusUsageSource().prefetch(target(url, 0), spans())

    assert refused.value.reason == "too_large"


def test_hours_with_others_between_them_are_observed_together() -> None:
    with holding(openmetrics([some_pods()])) as url:
        of, source = target(url, 0), PrometheusUsageSource()
        some = [spans()[0], spans()[3]]
        together = source.prefetch(of, some)
        for span in some:
            ours, single = observe(together, of, span), observe(source, of, span)
            assert isinstance(ours, Observation)
            assert isinstance(single, Observation)
            assert is_of_pass(ours)
            assert replace(ours, evidence=()) == replace(single, evidence=())


def test_an_hour_that_was_not_prefetched_is_asked_alone() -> None:
    with holding(openmetrics([some_pods(), some_pods(3)])) as url:
        of, source = target(url, 0), PrometheusUsageSource()
        together = source.prefetch(of, spans(3))

        for span, asked_of in ((spans()[3], of), (spans()[0], target(url, 1))):
            ours = observe(together, asked_of, span)
            assert isinstance(ours, Observation)
            assert not is_of_pass(ours)
        longer = replace(spans()[1], end_at=spans()[2].end_at, as_of=spans()[2].as_of)
        assert source.prefetch(of, [spans()[0], longer]) is source


def test_an_hour_with_too_few_series_is_asked_again_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with holding(openmetrics([some_pods()])) as url:
        of, source = target(url, 0), PrometheusUsageSource()
        asking_together = prefetching.ask_together

        def without_one(
            asking: Asking, plan: QueryPlan, around: Sequence[Range], *, user_label: str
        ) -> list[HourAnswers]:
            first, second, *others = asking_together(asking, plan, around, user_label=user_label)
            return [first, replace(second, arrived=first.arrived), *others]

        monkeypatch.setattr(source_module, "ask_together", without_one)
        together = source.prefetch(of, spans())
        ours = [observe(together, of, span) for span in spans()]
        single = observe(source, of, spans()[1])

    assert ours[1] == single
    assert [is_of_pass(one) for one in ours if isinstance(one, Observation)] == [
        *(True, False, True, True)
    ]


def test_a_victoria_metrics_is_asked_together_too(victoria_metrics: Seen) -> None:
    of = target_of(victoria_metrics.scenario.cluster("hopper"), victoria_metrics.url)
    hours = [ObservedSpan(**asked(hour, 1)) for hour in range(1, 6)]

    together = victoria_metrics.source.prefetch(of, hours)

    for span in hours:
        ours, single = observe(together, of, span), observe(victoria_metrics.source, of, span)
        if isinstance(single, Observation):
            assert isinstance(ours, Observation)
            assert is_of_pass(ours)
            assert replace(ours, evidence=()) == replace(single, evidence=())
        else:
            assert str(ours) == str(single)
