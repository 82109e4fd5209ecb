"""Bounds of the hour: a sample belongs to one hour, with Prometheus 2 and with Prometheus 3."""

from collections.abc import Sequence
from decimal import Decimal

import pytest

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.devices import reading
from metering.adapters.prometheus.devices.scrapes import Scrapes, count_scrapes
from metering.adapters.prometheus.nodes import Hours
from metering.protocols import DeviceFigures
from tests.support.metering.prometheus import (
    END,
    SCRAPE,
    START,
    Reply,
    Row,
    World,
    observe_devices,
)

GPU = {
    "UUID": "GPU-4a7b",
    "hostname": "gpu-h100-01",
    "modelName": "NVIDIA H100 80GB HBM3",
    "exported_namespace": "team-nlp",
    "exported_pod": "llm-train-0",
}
WATTS = 400
HOUR = Hours(START * 1000, END * 1000, SCRAPE * 1000)


def world(first: float, *, is_closed: bool) -> World:
    """Return a GPU scraped every minute, whose figures differ from sample to sample."""
    times = [round(first + SCRAPE * number, 3) for number in range(-2, 63)]
    metrics = {
        known.BUSY_PERCENT: [str(number % 90) for number in range(65)],
        known.ENERGY: [str(round(at * 1000) * WATTS) for at in times],
        known.POWER: [f"{WATTS + number % 3}.5" for number in range(65)],
        known.MEMORY_USED: [str(1_000 + number) for number in range(65)],
        known.MEMORY_FREE: [str(9_000 - number) for number in range(65)],
    }
    begin, end = START - 2 * SCRAPE + (0 if is_closed else 0.001), END + 2 * SCRAPE
    rows: list[Row] = [
        {
            "metric": {"__name__": metric, **GPU},
            "values": [
                [at, value] for at, value in zip(times, values, strict=True) if begin <= at <= end
            ],
        }
        for metric, values in metrics.items()
    ]
    return World(devices=rows[:2], figures=rows[2:], is_closed=is_closed)


def raw(one: World) -> DeviceFigures:
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(reading, "read_steady", lambda *_: None)
        return observe_devices(one)


def is_raw(found: DeviceFigures) -> bool:
    return any("SM_CLOCK" in one.query for one in found.evidence)


@pytest.mark.parametrize("is_closed", [True, False], ids=["Prometheus 2", "Prometheus 3"])
@pytest.mark.parametrize("first", [0, 0.001, 0.002, 7.347, 59.998, 59.999])
def test_a_sample_at_a_bound_belongs_to_one_hour(first: float, is_closed: bool) -> None:  # noqa: FBT001 - A case.
    one = world(START + first, is_closed=is_closed)

    found, expected = observe_devices(one), raw(one)

    assert found.devices == expected.devices
    assert found.energies == expected.energies
    assert [device.samples for device in found.devices] == [60]
    # Prometheus 2 alone counts a sample one millisecond before the hour: what is counted twice is
    # read from raw samples, whichever of both answers.
    assert is_raw(found) == (first == 59.999)


def test_the_sample_on_the_hour_counts_in_the_hour_that_it_begins() -> None:
    [device] = observe_devices(world(START, is_closed=False)).devices

    assert device.busy_ratio == sum(map(Decimal, range(2, 62))) / 60 / 100
    assert device.memory_used_peak_mebibytes == 1_061


def grid(step: int, first: int = START * 1000 + 7_000) -> Sequence[int]:
    """Return the times within two scrapes of the hour's edges, in milliseconds."""
    times = range(first - 10 * step, END * 1000 + 10 * step, step)
    edges = (START * 1000, END * 1000)
    return [at for at in times if any(abs(at - edge) <= 2 * SCRAPE * 1000 for edge in edges)]


@pytest.mark.parametrize(
    ("step", "samples", "scrapes"),
    [
        (60_000, 60, Scrapes(60, 60, 60)),
        (60_000, 41, Scrapes(41, 60, 41)),
        (60_000, 61, None),
        (30_000, 120, Scrapes(61, 61, 120)),
        (30_000, 119, None),
        (15_000, 240, Scrapes(61, 61, 240)),
        (120_000, 30, Scrapes(30, 60, 30)),
        (180_000, 20, None),
    ],
    ids=[
        "all",
        "gap",
        "too many",
        "twice",
        "gap of twice",
        "four times",
        "half",
        "too few at the edges",
    ],
)
def test_scrapes_are_counted_where_the_edges_show_their_distance(
    step: int, samples: int, scrapes: Scrapes | None
) -> None:
    assert count_scrapes(grid(step), samples, HOUR) == scrapes


def test_irregular_scrapes_and_series_that_do_not_span_the_hour_are_not_counted() -> None:
    times = grid(60_000)

    assert count_scrapes([*times[:1], times[1] + 20_000, *times[2:]], 60, HOUR) is None
    assert count_scrapes([at for at in times if at > START * 1000], 60, HOUR) is None
    assert count_scrapes([at for at in times if at < START * 1000 + 200_000], 60, HOUR) is None
    assert count_scrapes([], 60, HOUR) is None


def test_refused_aggregates_are_answered_by_raw_samples() -> None:
    one = world(START + 7, is_closed=True)
    expected = raw(one)
    aggregated = one.aggregate
    one.aggregate = lambda *_: Reply(b"{}", status=422)  # type: ignore[method-assign]

    found = observe_devices(one)

    assert aggregated is not None
    assert is_raw(found)
    assert (found.devices, found.energies) == (expected.devices, expected.energies)
