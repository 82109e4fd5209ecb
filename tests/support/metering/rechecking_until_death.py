"""What a worker that dies does when it looks at a sealed hour again; see crashing.py."""

from metering.services.collection.sweeping import Worker
from metering.services.corrections.rechecking import recheck_due
from tests.support.metering.crashing import set_the_stage
from tests.support.metering.rechecking import FIRST, SECOND, learn, seal_hour
from tests.support.metering.seen import ended_pod, observation, pod, source_down, worker


def seal() -> None:
    """Make the stage of crashing.py and seal its hour."""
    set_the_stage()
    seal_hour(ended_pod("a", 0, 600), pod("c", namespace="stray"))


def look_again() -> None:
    """Let the source be away at the first recheck, and tell more at the next."""
    metering: Worker = worker(observation())
    learn(metering, ended_pod("a", 0, 900), pod("b", units=2), pod("c", namespace="stray"))
    with source_down(metering):
        recheck_due(worker=metering, at=FIRST)
    recheck_due(worker=metering, at=SECOND)
