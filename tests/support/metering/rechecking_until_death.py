"""A worker that dies while it looks at a sealed hour again; see crashing.py.

python -m tests.support.metering.rechecking_until_death recheck.before_commit 1
"""

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.test")
if __name__ == "__main__":
    django.setup()

from metering.domain.collection.crashpoints import install_listener
from metering.services.collection.sweeping import Worker
from metering.services.corrections.rechecking import recheck_due
from tests.support.metering.crashing import DEAD, set_the_stage
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


def main(point: str, hit: int) -> None:
    """Look again, and die when a crash point is reached for the `hit`-th time."""
    seen = 0

    def die(name: str) -> None:
        nonlocal seen
        seen += name == point
        if seen == hit:
            os._exit(DEAD)

    install_listener(die)
    look_again()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
