"""Health of devices out of Prometheus: copies merged, levels kept, names as a site has them."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from metering.adapters.prometheus.devices.health import health_names, health_query, read_health
from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.samples import Series
from metering.domain.devices.error_tables import (
    ECC_VOLATILE,
    HEALTH_STATUS,
    XID_COUNT,
    XID_ERRORS,
)
from metering.protocols import ClusterTarget
from metering.protocols.health import HealthRun, HealthSignal
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.prometheus import (
    DCGM,
    END,
    HOUR,
    START,
    World,
    observe_devices,
    raw,
)

NAMES = health_names(names_of(ClusterTarget(slug="hopper")))
GPU = {"UUID": "GPU-1", "hostname": "node-1", "modelName": "NVIDIA H100 80GB HBM3", **DCGM}
SICK = {**GPU, "err_code": "95", "err_msg": "Uncontained ECC error"}


def series(metric: str, labels: dict[str, str], *samples: tuple[int, str]) -> Series:
    """Return a series of samples given as second and value."""
    return Series(metric, labels, [at * 1000 for at, _ in samples], [text for _, text in samples])


def levels(*given: Series, step: int = 30) -> list[tuple[str, str, list[tuple[str, int, int]]]]:
    """Return metric, instance and runs of each signal; seconds since 1970."""
    return [
        (one.metric, one.instance_id, [_run(run) for run in one.runs])
        for one in read_health(given, NAMES, step_seconds=step)
    ]


def _run(run: HealthRun) -> tuple[str, int, int]:
    return str(run.value), int(run.first_at.timestamp()), int(run.last_at.timestamp())


def test_one_query_asks_for_everything_that_is_not_zero() -> None:
    query = health_query(NAMES, selector=',cluster="a"', range_seconds=3720, step_seconds=30)

    assert query.startswith('({__name__=~"DCGM_FI_DEV_XID_ERRORS|DCGM_FI_DEV_XID_ERROR|')
    assert query.endswith('",cluster="a"} > 0)[3720s:30s]')
    assert "DCGM_FI_DEV_ROW_REMAP_FAILED" in query


def test_a_sites_own_names_replace_ours() -> None:
    target = ClusterTarget(slug="hopper", metric_aliases={XID_ERRORS: ("gpu_xid",)})

    names = health_names(names_of(target))

    assert names.spelled(XID_ERRORS) == ("gpu_xid",)
    assert names.ours["gpu_xid"] == XID_ERRORS
    assert names.spelled(ECC_VOLATILE) == (ECC_VOLATILE,)


def test_an_error_that_changes_its_labels_is_one_device() -> None:
    found = levels(
        series(XID_ERRORS, {**GPU, "err_code": "13"}, (0, "13"), (30, "13")),
        series(XID_ERRORS, SICK, (60, "95"), (90, "95")),
    )

    assert found == [(XID_ERRORS, "", [("13", 0, 30), ("95", 60, 90)])]


def test_copies_count_once_and_the_largest_value_wins() -> None:
    found = levels(
        series(ECC_VOLATILE, {**GPU, "exported_pod": "a"}, (0, "1"), (30, "1")),
        series(ECC_VOLATILE, {**GPU, "exported_pod": "b"}, (0, "1"), (30, "2")),
    )

    assert found == [(ECC_VOLATILE, "", [("1", 0, 0), ("2", 30, 30)])]


def test_a_hole_of_more_than_two_and_a_half_steps_parts_a_level() -> None:
    assert levels(series(XID_ERRORS, SICK, (0, "95"), (75, "95"), (151, "95"))) == [
        (XID_ERRORS, "", [("95", 0, 75), ("95", 151, 151)])
    ]


def test_what_every_instance_shows_alike_is_the_gpus() -> None:
    slices = [{**GPU, "GPU_I_ID": key, "GPU_I_PROFILE": "1g.10gb"} for key in ("7", "8")]

    assert levels(*(series(XID_ERRORS, labels, (0, "79")) for labels in slices)) == [
        (XID_ERRORS, "", [("79", 0, 0)])
    ]
    assert levels(
        series(XID_ERRORS, slices[0], (0, "79")), series(XID_ERRORS, slices[1], (0, "31"))
    ) == [(XID_ERRORS, "7", [("79", 0, 0)]), (XID_ERRORS, "8", [("31", 0, 0)])]
    assert levels(series(XID_ERRORS, slices[0], (0, "79"))) == [(XID_ERRORS, "7", [("79", 0, 0)])]


def test_counts_are_distinguished_by_xid_and_health_by_watch() -> None:
    found = read_health(
        [
            series(XID_COUNT, {**GPU, "xid": "48"}, (0, "1")),
            series(XID_COUNT, {**GPU, "xid": "95"}, (0, "2")),
            series(HEALTH_STATUS, {**GPU, "health_watch": "MEM"}, (0, "20")),
            series(XID_COUNT, GPU, (0, "1")),
        ],
        NAMES,
        step_seconds=30,
    )

    assert [(one.metric, one.code) for one in found] == [
        (HEALTH_STATUS, "MEM"),
        (XID_COUNT, ""),
        (XID_COUNT, "48"),
        (XID_COUNT, "95"),
    ]


@pytest.mark.parametrize("text", ["NaN", "+Inf", "0", "-1"])
def test_a_value_that_cannot_be_is_not_seen(text: str) -> None:
    assert levels(series(XID_ERRORS, SICK, (0, text))) == []


def test_a_value_that_is_no_number_refuses_the_answer() -> None:
    with pytest.raises(SourceUnavailableError) as refusal:
        levels(series(XID_ERRORS, SICK, (0, "many")))

    assert refusal.value.reason == "bad_sample"


def test_a_series_without_a_device_is_left_out() -> None:
    assert levels(series(XID_ERRORS, {**DCGM}, (0, "95"))) == []


def test_a_window_carries_health_with_its_evidence() -> None:
    world = World(
        observations=[raw("up", {"job": "kube-state-metrics", "instance": "10.0.0.9:8080"})],
        health=[raw(XID_ERRORS, SICK, "95", [START + 600, START + 660])],
    )

    seen = observe_devices(world)

    assert seen.health.signals == (
        HealthSignal(
            uuid="GPU-1",
            node="node-1",
            instance_id="",
            instance_profile="",
            metric=XID_ERRORS,
            code="",
            runs=(
                HealthRun(Decimal(95), HOUR + timedelta(minutes=10), HOUR + timedelta(minutes=11)),
            ),
        ),
    )
    evidence = seen.evidence[-1]
    assert (seen.health.query, seen.health.asked_at, seen.health.sha256) == (
        evidence.query,
        evidence.at,
        evidence.sha256,
    )
    assert evidence.at == HOUR + timedelta(seconds=END + 120 - START)
    assert replace(seen.health, signals=()).step_seconds == 60
