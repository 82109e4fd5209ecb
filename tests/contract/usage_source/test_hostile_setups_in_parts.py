"""What a real installation does to series reads the same in parts as it does at once."""

from dataclasses import replace

import pytest

from metering.adapters.prometheus import PrometheusUsageSource
from metering.protocols import Observation
from tenants.domain.errors import SourceUnavailableError
from tests.contract.usage_source.conftest import HOSTILE
from tests.support.sampling import sampled
from tests.support.usage_source.hostile import HOUR, Setup, moment
from tests.support.usage_source.parts import observe_in_parts

HOURS = (2, 3)


@pytest.fixture
def prometheus_url(hostile_history_url: str) -> str:
    return hostile_history_url


def whole(setup: Setup, url: str, hour: int) -> Observation | str:
    """Return what an hour shows at once, or why it cannot be observed."""
    try:
        found = PrometheusUsageSource().observe(
            setup.target(url),
            start_at=moment(hour * HOUR),
            end_at=moment((hour + 1) * HOUR),
            as_of=moment((hour + 1) * HOUR + HOUR // 2),
        )
    except SourceUnavailableError as error:
        return error.reason
    return replace(found, evidence=())


def in_parts(setup: Setup, url: str, hour: int) -> Observation | str:
    """Return the same of an hour that is observed in 16 parts and the rest."""
    try:
        return observe_in_parts(
            PrometheusUsageSource(),
            setup.target(url),
            start_at=moment(hour * HOUR),
            end_at=moment((hour + 1) * HOUR),
            as_of=moment((hour + 1) * HOUR + HOUR // 2),
            parts=16,
        )
    except SourceUnavailableError as error:
        return error.reason


@pytest.mark.parametrize(
    ("setup", "hour"),
    sampled([(setup, hour) for hour in HOURS for setup in HOSTILE], every=3),
    ids=lambda value: getattr(value, "slug", value),
)
def test_a_hostile_hour_reads_the_same_in_parts(
    setup: Setup, hour: int, prometheus_url: str
) -> None:
    assert in_parts(setup, prometheus_url, hour) == whole(setup, prometheus_url, hour)
