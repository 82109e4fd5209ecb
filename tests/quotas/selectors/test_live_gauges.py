"""What `/metrics` shows of admission."""

import pytest

from metering.models import PodAllocation
from quotas.models import QuotaCounter
from quotas.selectors.gauges import (
    counter_drift,
    live_bypasses,
    refusals_by_code,
    reservations_by_state,
)
from tenants.models import Cluster
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.admitting import ask, end, start, sweep
from tests.support.quotas.builders import hold, make_limit
from tests.support.shared_rows import shared_rows


@shared_rows
def cluster(cast: Cast) -> Cluster:
    make_cluster("ampere", admission_mode="off")
    cluster = make_cluster("hopper", admission_mode="enforce")
    bind(cluster, "llm", cast.llm)
    return cluster


@pytest.mark.usefixtures("cluster")
def test_a_quiet_service_stands_at_zero() -> None:
    assert reservations_by_state() == {
        ("ampere", "reserved"): 0,
        ("ampere", "held"): 0,
        ("hopper", "reserved"): 0,
        ("hopper", "held"): 0,
    }
    assert live_bypasses() == {"hopper": 0}
    assert (counter_drift(), refusals_by_code()) == (0, {})


def test_reservations_bypasses_and_refusals_are_counted(cast: Cast, cluster: Cluster) -> None:
    make_limit(cast.acme, units=1)
    ask(cluster, uid="pod-1")
    for uid in ("pod-2", "pod-2"):
        ask(cluster, uid=uid)
    hold(cluster, "llm")
    ended = hold(cluster, "llm")
    sweep()
    PodAllocation.objects.filter(pk=ended.pk).update(end_at=ended.begin_at)
    sweep()
    QuotaCounter.objects.update(drift_units=3)

    assert reservations_by_state()["hopper", "held"] == 1
    assert live_bypasses() == {"hopper": 1}
    assert refusals_by_code() == {"limit_reached": 2}
    assert counter_drift() == 3


def test_a_bypass_nobody_knows_the_size_of_is_reported_until_it_ends(cluster: Cluster) -> None:
    allocation = start(cluster, size="", price_group="", catalogue_version=None)
    start(
        cluster, "elsewhere", namespace="nobodys", size="", price_group="", catalogue_version=None
    )
    sweep()

    unsized = live_bypasses(), reservations_by_state()["hopper", "held"]
    end(allocation)
    sweep()

    assert unsized == ({"hopper": 1}, 0)
    assert live_bypasses() == {"hopper": 0}
