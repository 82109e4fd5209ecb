"""A worker that dies: one fixed hour of work, and a process that ends at a crash point."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from django.db import connections

from metering.domain.collection.crashpoints import install_listener
from metering.services.collection.sweeping import meter_due
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import (
    HOUR,
    LATER,
    device,
    ended_pod,
    moment,
    observation,
    pod,
    source_down,
    ticks,
    worker,
)

DEAD = 137
SECONDS_MAX = 120


def set_the_stage() -> None:
    """Make a cluster, a project and a binding whose keys are the same in every run."""
    cluster = make_cluster(id=UUID(int=1), metered_from=HOUR)
    project = make_project(make_organization(id=UUID(int=2)), id=UUID(int=3))
    bind(cluster, "team-nlp", project)


def meter() -> None:
    """Meter two hours: twice the source is away, a while later it answers."""
    second = HOUR + timedelta(hours=1)
    metering = worker(
        observation(
            pod("uid-1", units=2),
            ended_pod("b", 10, 20),
            pod("c", namespace="stray"),
            devices=(device(),),
        ),
        observation(
            pod("uid-1", units=2, last_seen_at=moment(3600 + LATER - 23, start_at=second)),
            start_at=second,
            end_at=second + timedelta(hours=1),
            ticks=ticks(start_at=second),
        ),
    )
    due = moment(2 * 3600 + LATER)
    with source_down(metering):
        meter_due(worker=metering, at=due)
        meter_due(worker=metering, at=due + timedelta(minutes=30))
    meter_due(worker=metering, at=due + timedelta(hours=1, minutes=-1))


def exit_code_of(work: Callable[[], object], *, point: str, hit: int) -> int:
    """Do work in a process of its own that dies, as by SIGKILL, where nothing is cleaned up.

    The process is forked: a new interpreter would take 2 s to load the product.

    Args:
        work: What the process does, with connections of its own.
        point: Where it dies.
        hit: At which time it comes there.
    """
    connections.close_all()
    child = os.fork()
    if child == 0:
        _die_at(point, hit, work)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _die_at(point: str, hit: int, work: Callable[[], object]) -> None:
    seen = 0

    def die(name: str) -> None:
        nonlocal seen
        seen += name == point
        if seen == hit:
            os._exit(DEAD)

    signal.alarm(SECONDS_MAX)
    try:
        install_listener(die)
        work()
    except BaseException:  # noqa: BLE001 - Nothing of the test's own process may go on in this one.
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)
