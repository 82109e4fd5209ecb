"""A worker that dies: one fixed hour of work, run to its end or to a crash point.

    python -m tests.support.metering.crashing collect.before_commit 1

dies at the first time it comes to that point, as by SIGKILL: nothing is cleaned up.
"""

import os
import sys
from datetime import timedelta
from uuid import UUID

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.test")
if __name__ == "__main__":
    django.setup()

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


def main(point: str, hit: int) -> None:
    """Meter, and die when a crash point is reached for the `hit`-th time."""
    seen = 0

    def die(name: str) -> None:
        nonlocal seen
        seen += name == point
        if seen == hit:
            os._exit(DEAD)

    install_listener(die)
    meter()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
