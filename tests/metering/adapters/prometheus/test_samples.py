"""Values at the adapter's edge: exact, whole and believable."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.adapters.prometheus.body import QueryResponse
from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.samples import (
    Range,
    read_matrix,
    read_timestamp,
    read_units,
    to_seconds,
    to_time,
)
from metering.protocols import ClusterTarget

NAMES = names_of(ClusterTarget(slug="hopper"))
WITHIN = Range(1_790_845_000, 1_790_850_000)


def matrix(*rows: str) -> QueryResponse:
    """Return an answer that holds rows as they are spelled."""
    inside = ",".join(rows)
    text = f'{{"status":"success","data":{{"resultType":"matrix","result":[{inside}]}}}}'
    return QueryResponse([text.encode()])


@pytest.mark.parametrize(
    ("text", "units"), [("0", 0), ("8", 8), ("1e+06", 1_000_000), ("2.0", 2), ("-0", 0)]
)
def test_units_are_whole_numbers_however_written(text: str, units: int) -> None:
    assert read_units(text) == units


@pytest.mark.parametrize(
    "text", ["1000000000001", "-1", "1.5", "NaN", "sNaN", "-Inf", "1e-9", "", "²"]
)
def test_other_units_are_none(text: str) -> None:
    assert read_units(text) is None


@given(st.integers(946_684_800_000, 1_790_850_300_000))
def test_a_timestamp_is_exact_to_the_millisecond(milliseconds: int) -> None:
    text = f"{Decimal(milliseconds) / 1000:e}"

    expected = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert read_timestamp(text, WITHIN) == expected == to_time(milliseconds)


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(2000, 1, 1)))  # noqa: DTZ001 - Zoned by Hypothesis.
def test_seconds_are_rounded_down(at: datetime) -> None:
    assert to_time(to_seconds(at) * 1000) == at.replace(microsecond=0)


def test_sample_times_keep_their_milliseconds() -> None:
    row = '{"metric": {"__name__": "up"}, "values": [[1790846000.001, "1"], [1790846030.999, "1"]]}'

    (series,) = read_matrix(matrix(row), NAMES, WITHIN)

    assert list(series.times) == [1_790_846_000_001, 1_790_846_030_999]


def test_a_series_with_its_only_sample_on_the_left_edge_is_not_there() -> None:
    row = json.dumps({"metric": {"__name__": "up"}, "values": [[WITHIN.first_seconds, "1"]]})

    assert read_matrix(matrix(row), NAMES, WITHIN) == []
