"""A tick that comes once a minute takes one step each time, however late or early it is."""

from datetime import timedelta
from itertools import accumulate

import pytest
from django.conf import LazySettings

from config.celery import app
from quotas.models import Reservation
from quotas.services.preemption.stepping import CYCLE, NEXT_TURN_AFTER
from quotas.tasks import preempt
from simulator.adapters.workload_evictor import SimulatedWorkloads
from tenants.models import Cluster
from tests.support.builders import make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit
from tests.support.quotas.preempting import protect
from tests.support.quotas.preemption_steps import (
    crowd,
    fresh,
    minutes,
    running,
    states,
    step,
)
from tests.support.shared_rows import shared_rows

JITTERS = (-14_000, -250, -2, 0, 2, 250, 14_000)
"""By how many milliseconds a tick may be off its minute."""


@pytest.fixture(autouse=True)
def nobody_else_plans(settings: LazySettings) -> None:
    """Leave the world to the plans of the tests."""
    settings.PREEMPTION_AFTER_SECONDS = 3_600


@shared_rows
def cluster(cast: Cast) -> Cluster:
    make_limit(cast.acme, units=0)
    return make_cluster("hopper")


@pytest.fixture
def pods(cast: Cast, cluster: Cluster) -> list[Reservation]:
    """Four pods, newest first, of which none may stay."""
    return crowd("abcd", project=cast.llm, cluster=cluster)


def asked(workloads: SimulatedWorkloads) -> list[str]:
    return [name for _, _, name in workloads.asked]


@pytest.mark.usefixtures("pods")
@pytest.mark.parametrize("jitter", JITTERS)
def test_two_ticks_a_cycle_apart_take_two_steps(
    cast: Cast, workloads: SimulatedWorkloads, jitter: int
) -> None:
    running(cast.acme)

    preempt(minutes(0))
    preempt(minutes(0) + CYCLE + timedelta(milliseconds=jitter))

    assert asked(workloads) == ["a", "b"]


@pytest.mark.usefixtures("pods")
def test_jitter_does_not_add_up_over_many_ticks(cast: Cast, workloads: SimulatedWorkloads) -> None:
    running(cast.acme)

    seen = []
    gaps = (0, 59_990, 60_020, 59_985)
    for passed in accumulate(gaps):
        preempt(minutes(0) + timedelta(milliseconds=passed))
        seen.append(len(workloads.asked))

    assert seen == [1, 2, 3, 4]


@pytest.mark.usefixtures("pods")
@pytest.mark.parametrize("seconds", [0, 1, 30, 44])
def test_a_tick_that_comes_again_within_the_cycle_takes_no_step(
    cast: Cast, workloads: SimulatedWorkloads, seconds: int
) -> None:
    plan = running(cast.acme)
    preempt(minutes(0))

    preempt(minutes(0) + timedelta(seconds=seconds))

    assert asked(workloads) == ["a"]
    assert states(plan) == {"a": "started", "b": "planned", "c": "planned", "d": "planned"}
    assert fresh(plan).not_before == minutes(0) + NEXT_TURN_AFTER


@pytest.mark.usefixtures("pods")
@pytest.mark.parametrize("early", [1, 15])
def test_a_tick_never_cuts_the_grace_short(
    cast: Cast, workloads: SimulatedWorkloads, early: int
) -> None:
    running(cast.acme)

    preempt(minutes(0) - timedelta(seconds=early))

    assert workloads.asked == []


@pytest.mark.usefixtures("pods")
def test_who_was_spared_is_looked_at_again_by_the_next_tick(
    cast: Cast, workloads: SimulatedWorkloads
) -> None:
    plan = running(cast.acme)
    protect(cast.acme, begin_at=minutes(0), end_at=minutes(0) + timedelta(seconds=50))
    step(plan, minutes(0))
    spared = states(plan)["a"]

    step(plan, minutes(0) + CYCLE - timedelta(milliseconds=2))

    assert spared == "blocked"
    assert asked(workloads) == ["a"]


def test_the_tick_comes_once_a_cycle_and_a_turn_is_due_before_it() -> None:
    schedule = app.conf.beat_schedule["quotas.tick_preemption"]["schedule"]

    assert timedelta(seconds=schedule) == CYCLE
    assert CYCLE / 2 < NEXT_TURN_AFTER < CYCLE
