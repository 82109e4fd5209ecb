"""A look at a sealed hour through another replica adds nothing for scraping a little later."""

from datetime import timedelta

import pytest

from metering.services.catalogue import ensure_catalogue
from tenants.models import Cluster, Project
from tests.support.metering.rechecking import (
    FIRST,
    SECOND,
    THIRD,
    corrections,
    learn,
    recheck,
    seal_hour,
    sums,
)
from tests.support.metering.seen import ACTOR, HOUR, ended_pod, moment, pod, ticks

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def stage(project: Project, cluster: Cluster) -> None:  # noqa: ARG001 - The tenant's binding.
    ensure_catalogue(actor=ACTOR, at=HOUR)


def test_replicas_in_turn_add_nothing() -> None:
    metering = seal_hour(pod("a", units=2, last_seen_at=moment(1807)))
    before = sums()
    later = tuple(tick + timedelta(seconds=13) for tick in ticks())

    learn(metering, pod("a", units=2, last_seen_at=moment(1820)), ticks=later)
    recheck(metering, FIRST)
    learn(metering, pod("a", units=2, last_seen_at=moment(1807)))
    recheck(metering, SECOND)
    learn(metering, pod("a", units=2, last_seen_at=moment(1850)), ticks=later)
    recheck(metering, THIRD)

    assert (before, sums(), corrections()) == ({"a": 3644}, before, [])


@pytest.mark.parametrize(
    ("last_seen", "more"), [(1867, 0), (1897, 180)], ids=["within two scrapes", "beyond"]
)
def test_more_than_the_tolerance_is_added_as_a_whole(last_seen: int, more: int) -> None:
    metering = seal_hour(pod("a", units=2, last_seen_at=moment(1807)))
    learn(metering, pod("a", units=2, last_seen_at=moment(last_seen)))

    recheck(metering)

    assert sums() == {"a": 3644 + more}


def test_a_better_known_end_is_billed_to_the_second() -> None:
    metering = seal_hour(pod("a", scheduled_at=HOUR, last_seen_at=moment(1807)))
    assert sums() == {"a": 1822}
    learn(metering, ended_pod("a", 0, 1827))

    recheck(metering)

    assert sums() == {"a": 1827}


def test_who_turns_out_to_have_gone_on_is_billed_to_the_end_of_the_hour() -> None:
    metering = seal_hour(pod("a", last_seen_at=moment(3547)))
    assert sums() == {"a": 3562}
    learn(metering, pod("a"))

    recheck(metering)

    assert sums() == {"a": 3600}


def test_an_end_in_a_hole_that_is_seen_now_is_billed_to_the_second() -> None:
    blind = tuple(tick for tick in ticks() if not moment(1810) < tick < moment(1890))
    metering = seal_hour(pod("a", last_seen_at=moment(1807)), ticks=blind, expected_ticks=116)
    assert sums() == {"a": 1807}
    learn(metering, pod("a", last_seen_at=moment(1807)))

    recheck(metering)

    assert sums() == {"a": 1822}
