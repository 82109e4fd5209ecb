"""The coverage clock: absence may be concluded only at its ticks."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.adapters.prometheus.clock import ScrapeTimes, read_clock
from metering.adapters.prometheus.names import Names, names_of
from metering.adapters.prometheus.samples import Series
from metering.protocols import ClusterTarget
from tenants.domain.errors import SourceUnavailableError

NAMES: Names = names_of(ClusterTarget(slug="hopper"))
MAIN, TWIN, PORT = "10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.1:8081"


def up(instance: str, times: Sequence[int], value: str = "1", **labels: str) -> Series:
    return Series(
        "up",
        {"instance": instance, **labels},
        [second * 1000 for second in times],
        [value] * len(times),
    )


def pod(instance: str) -> Series:
    return Series("kube_pod_container_resource_requests", {"instance": instance}, [0], ["1"])


def ticks(*observations: Series) -> list[int]:
    return [int(one.timestamp()) for one in clock(*observations).ticks]


def clock(*observations: Series) -> ScrapeTimes:
    return read_clock(observations, NAMES, scrape_seconds=60)


def test_each_successful_scrape_is_a_tick() -> None:
    assert ticks(up(MAIN, [120, 60, 180]), pod(MAIN)) == [60, 120, 180]


def test_a_failed_scrape_is_no_tick() -> None:
    assert ticks(up(MAIN, [60, 180]), up(MAIN, [120], "0"), pod(MAIN)) == [60, 180]


def test_two_copies_of_prometheus_do_not_tick_twice() -> None:
    copies = (up(MAIN, [60, 120, 180], replica="a"), up(MAIN, [75, 135, 195], replica="b"))

    assert ticks(*copies, pod(MAIN)) == [60, 120, 180]


def test_one_copy_of_prometheus_covers_for_the_other() -> None:
    copies = (
        up(MAIN, [60, 180], replica="a"),
        up(MAIN, [120], "0", replica="a"),
        up(MAIN, [60, 120, 180], replica="b"),
    )

    assert ticks(*copies, pod(MAIN)) == [60, 120, 180]


def test_a_target_that_never_answered_takes_no_scrape_of_another_back() -> None:
    assert ticks(up(MAIN, [60, 120]), up(TWIN, [60, 120], "0"), pod(MAIN)) == [60, 120]
    assert ticks(up(MAIN, [60, 120]), up(TWIN, [60, 120], "0")) == [60, 120]


def test_of_series_that_lost_their_instance_each_target_is_needed() -> None:
    shards = (up(MAIN, [60, 120, 180]), up(TWIN, [60, 180]), up(TWIN, [120], "0"))

    assert ticks(*shards, up(PORT, [60, 120, 180], "0"), pod("")) == [60, 180]


def test_each_target_has_its_own_scrapes_and_failures() -> None:
    up_and_down = (up(MAIN, [60, 120, 180]), up(TWIN, [60, 180]), up(TWIN, [120], "0"))

    main, port, twin = clock(*up_and_down, up(PORT, [60, 120], "0"), pod(MAIN), pod(TWIN)).targets

    assert (main.name, len(main.ticks), main.failures, main.has_series) == (MAIN, 3, 0, True)
    assert (port.name, len(port.ticks), port.failures, port.has_series) == (PORT, 0, 2, False)
    assert (twin.name, len(twin.ticks), twin.failures, twin.has_series) == (TWIN, 2, 1, True)


def test_a_failure_that_another_copy_of_prometheus_did_not_have_is_none() -> None:
    copies = (up(MAIN, [120], "0", replica="a"), up(MAIN, [60, 125], replica="b"))

    [target] = clock(*copies, pod(MAIN)).targets

    assert target.failures == 0


def test_another_port_of_the_exporter_proves_nothing() -> None:
    targets = (up(PORT, [60, 120, 180]), up(MAIN, [60]), up(MAIN, [120, 180], "0"))

    assert ticks(*targets, pod(MAIN)) == [60]


def test_another_port_that_fails_now_and_then_disproves_nothing() -> None:
    targets = (up(PORT, [60, 180]), up(PORT, [120], "0"), up(MAIN, [60, 120, 180]))

    assert ticks(*targets, pod(MAIN)) == [60, 120, 180]


def test_a_restart_under_a_new_address_goes_on_ticking() -> None:
    restart = (up(MAIN, [60, 120]), up(TWIN, [180, 240]))

    assert ticks(*restart, pod(MAIN), pod(TWIN)) == [60, 120, 180, 240]


def test_an_empty_cluster_ticks_all_the_same() -> None:
    assert ticks(up(MAIN, [60, 120])) == [60, 120]


def test_series_that_lost_their_instance_tick_all_the_same() -> None:
    assert ticks(up(MAIN, [60, 120]), pod("")) == [60, 120]


def test_nothing_at_all_ticks_not_at_all() -> None:
    assert ticks() == []


def test_pods_without_a_clock_are_refused() -> None:
    with pytest.raises(SourceUnavailableError) as refusal:
        ticks(pod(MAIN))

    assert refusal.value.reason == "no_coverage_clock"


def test_milliseconds_are_kept() -> None:
    observation = Series("up", {"instance": MAIN}, [1_790_848_800_123], ["1"])

    assert clock(observation).ticks == (datetime(2026, 10, 1, 10, 0, 0, 123000, tzinfo=UTC),)


@given(st.sets(st.integers(0, 600), min_size=1), st.sets(st.integers(0, 600), max_size=40))
def test_ticks_are_scrapes_in_order_apart_and_never_beside_a_failure(
    good: set[int], bad: set[int]
) -> None:
    found = ticks(up(MAIN, sorted(good)), up(MAIN, sorted(bad - good), "0"), pod(""))

    assert set(found) <= good
    assert all(later - earlier >= 45 for earlier, later in pairwise(found))
    lonely = {at for at in bad if not any(abs(at - one) < 30 for one in good)}
    assert not any(abs(at - one) < 30 for at in found for one in lonely)
