"""Hostile set-ups over a real Prometheus: exporters that are dead, idle, restarted or away.

Each pod and node is judged by the targets that carried it, short holes seal with their bound,
longer ones wait with an exception, and no hole becomes zero or full use by itself.
"""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from embedded.prometheus_programs import find_prometheus
from metering.domain.collection.windows import GapPolicy
from metering.domain.corrections.correction import RecheckReason
from metering.domain.errors import WindowDecisionRequiredError
from metering.models import MeteringException, MeteringWindow, PodAllocation
from metering.services.corrections.exceptions import resolve_exception
from metering.services.corrections.rechecking import recheck_due
from metering.services.corrections.rechecks import ask_recheck
from tenants.models import Cluster
from tests.support.metering.seen import ACTOR
from tests.support.usage_source.scraped_setups import (
    ALWAYS,
    BEGIN,
    END,
    HOUR,
    Case,
    Pod,
    Setup,
    Target,
    away,
    scraped,
    serving,
)

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[3]
A, B, C = "10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"

LONG, ENDS = Pod("long"), Pod("ends", gone=1807)
DEAD = scraped("dead", [Target(A), Target(B, up=(), down=ALWAYS)], LONG, ENDS)
COPY_DIES = scraped(
    "copy-dies",
    [Target(A), Target(B, up=((BEGIN, 1200),), down=((1200, END),), late=7)],
    LONG,
    ENDS,
)
SHARD_DIES = scraped(
    "shard-dies",
    [Target(A), Target(B, up=((BEGIN, 1800),), down=((1800, END),))],
    Pod("kept", on=(A,)),
    Pod("lost", on=(B,)),
    nodes_on=[A],
)
RESTART = scraped(
    "restart",
    [Target(A, up=((BEGIN, 1800),), down=((1800, 1860),)), Target(B, up=((1812, END),), late=12)],
    LONG,
    ENDS,
    Pod("begins", bound=1900),
)
HOLES = {
    seconds: scraped(f"hole-{seconds}", [Target(A, up=away(1800, 1800 + seconds))], LONG)
    for seconds in (90, 180, 240)
}
ENDED_IN_HOLE = scraped(
    "ended-in-hole", [Target(A, up=away(1800, 1980))], LONG, Pod("in", gone=1850)
)
ALL_DEAD = scraped("all-dead", [Target(A, up=((BEGIN, 1800),), down=((1800, END),))], LONG)
OUTAGE = scraped("outage", [Target(A, up=away(1800, 4800))], LONG, Pod("ended", gone=2000))
DAEMON_SET = scraped(
    "daemon-set",
    [Target(A), Target(B), Target(C, up=(), down=ALWAYS)],
    Pod("one", on=(A,)),
    Pod("two", on=(B,)),
    nodes_on=[A],
)
IDLE = scraped(
    "idle", [Target(A, up=away(1200, 1800)), Target(B)], Pod("only", on=(A,)), nodes_on=[A]
)
NODES_ALONE = scraped(
    "nodes-alone", [Target(A, up=away(1200, 1800)), Target(B)], Pod("only", on=(A,)), nodes_on=[B]
)
RESHARDED = scraped(
    "resharded",
    [Target(A, up=((BEGIN, 1800),)), Target(B, up=((1800, END),)), Target(C, up=((1800, END),))],
    Pod("first", on=(A, B)),
    Pod("second", on=(A, C)),
    Pod("third", gone=1700, on=(A,)),
    nodes_on=[A, B],
)
TWO_COPIES = scraped(
    "two-copies",
    [
        Target(A, up=away(600, 1200), replica="a"),
        Target(A, up=away(2400, 3000), late=11, replica="b"),
    ],
    LONG,
)


SETUPS = (
    DEAD,
    COPY_DIES,
    SHARD_DIES,
    RESTART,
    *HOLES.values(),
    ENDED_IN_HOLE,
    ALL_DEAD,
    OUTAGE,
    DAEMON_SET,
    IDLE,
    NODES_ALONE,
    RESHARDED,
    TWO_COPIES,
)


@pytest.fixture(scope="session")
def hostile_url() -> Iterator[str]:
    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail(programs.reason)
        pytest.skip(programs.reason)
    with serving(SETUPS, programs.folder) as url:
        yield url


def window() -> MeteringWindow:
    return MeteringWindow.objects.get(start_at=HOUR)


def test_a_target_that_is_dead_all_the_time_is_only_reported(hostile_url: str) -> None:
    case = Case(DEAD, hostile_url)

    assert case.meter() == ["sealed"]
    assert case.billed() == {"long": 3600, "ends": 1815}
    assert (window().observed_ticks, window().expected_ticks) == (120, 120)
    assert (window().unobserved_seconds, window().hidden_unit_seconds_max) == (0, {})
    [dead] = window().scrape_targets
    assert (dead["name"], dead["scrapes"], dead["has_series"]) == (B, 0, False)
    assert dead["failures"] >= 120
    assert case.open() == []


def test_of_two_copies_one_may_die_within_the_hour(hostile_url: str) -> None:
    case = Case(COPY_DIES, hostile_url)

    assert case.meter() == ["sealed"]
    assert case.billed() == {"long": 3600, "ends": 1815}
    assert window().unobserved_seconds == 0


def test_a_shard_that_dies_needs_a_decision_that_bills_its_pods_to_their_last_sample(
    hostile_url: str,
) -> None:
    case = Case(SHARD_DIES, hostile_url)

    assert case.meter() == ["gap"]
    assert case.open() == [("low_coverage", "")]
    summary = case.summary()
    assert summary.startswith(f"1800 s of this hour were not observed by {B}: 10:30:00 to 11:00:00")

    assert case.decide(GapPolicy.ACCEPT) == ["sealed"]

    assert case.billed() == {"kept": 3600, "lost": 1770}
    assert case.open() == [("uncertain_end", "lost nvidia_com_gpu")]


def test_a_restart_under_a_new_address_is_no_hole(hostile_url: str) -> None:
    case = Case(RESTART, hostile_url)

    assert case.meter() == ["sealed"]
    assert case.billed() == {"long": 3600, "ends": 1791, "begins": 1700}
    assert (window().unobserved_seconds, window().observed_ticks) == (0, 120)


@pytest.mark.parametrize(("seconds", "state"), [(90, "sealed"), (180, "sealed"), (240, "gap")])
def test_a_hole_seals_by_itself_up_to_the_limit(hostile_url: str, seconds: int, state: str) -> None:
    case = Case(HOLES[seconds], hostile_url)

    assert case.meter() == [state]

    found = window()
    assert (found.unobserved_seconds, found.longest_hole_seconds) == (seconds, seconds)
    if state == "sealed":
        assert case.billed() == {"long": 3600}
        assert found.hidden_unit_seconds_max == {"large": 7 * seconds}
        assert case.open() == []
    else:
        assert case.billed() == {}
        assert f"{seconds} s of this hour were not observed by {A}" in case.summary()


def test_a_pod_that_ended_in_a_short_hole_is_billed_to_its_last_sample_and_flagged(
    hostile_url: str,
) -> None:
    case = Case(ENDED_IN_HOLE, hostile_url)

    assert case.meter() == ["sealed"]
    assert case.billed() == {"long": 3600, "in": 1770}
    [found] = MeteringException.objects.all()
    assert (found.kind, found.details["slack_seconds"]) == ("uncertain_end", 210)
    assert window().hidden_unit_seconds_max == {"large": 7 * 180}


def test_an_hour_whose_end_nothing_observed_never_waits_without_an_exception(
    hostile_url: str,
) -> None:
    case = Case(ALL_DEAD, hostile_url)
    assert case.meter() == ["gap"]

    assert case.decide(GapPolicy.ACCEPT) == ["gap"]

    assert case.open() == [("low_coverage", "")]
    assert "No scrape took place after the hour." in case.summary()
    with pytest.raises(WindowDecisionRequiredError):
        resolve_exception(
            exception_id=MeteringException.objects.get().pk,
            note="Seen.",
            actor=ACTOR,
            at=case.at,
        )
    MeteringException.objects.update(state="resolved", resolution="By hand.", resolved_at=case.at)
    assert case.meter() == ["gap"]
    assert case.open() == [("low_coverage", "")]


def test_as_last_known_bills_to_the_last_sample_and_on_only_for_what_came_back(
    hostile_url: str,
) -> None:
    case = Case(OUTAGE, hostile_url, hours=3)
    assert case.meter() == ["gap", "gap", "sealed"]

    assert case.decide(GapPolicy.LAST_KNOWN, hour=0) == ["sealed", "gap", "sealed"]
    assert case.billed() == {"long": 3600, "ended": 1785}
    assert case.open()[1:] == [("uncertain_end", "ended nvidia_com_gpu")]
    assert case.decide(GapPolicy.LAST_KNOWN, hour=1) == ["sealed", "sealed", "sealed"]

    assert case.billed(1) == {"long": 3600}
    assert case.billed(2) == {"long": 3600}
    ended = PodAllocation.objects.get(pod_name="ended")
    assert ended.end_at == HOUR + timedelta(seconds=1770)


def test_as_last_known_before_it_came_back_is_corrected_when_it_did(hostile_url: str) -> None:
    case = Case(OUTAGE, hostile_url, hours=1)
    assert case.meter() == ["gap"]
    assert case.decide(GapPolicy.LAST_KNOWN) == ["sealed"]
    assert case.billed() == {"long": 1785, "ended": 1785}
    assert [kind for kind, _ in case.open()] == ["uncertain_end", "uncertain_end"]

    Cluster.objects.update(closed_at=HOUR + timedelta(hours=3))
    case.meter()
    ask_recheck(
        window_id=window().pk,
        reason=RecheckReason.PERSON,
        note="It came back.",
        policy=case.worker.policy,
        actor=ACTOR,
        at=case.at,
    )
    recheck_due(worker=case.worker, at=case.at)

    assert case.billed() == {"long": 3600, "ended": 1785}


def test_a_node_of_a_daemon_set_that_never_answers_stops_no_other(hostile_url: str) -> None:
    case = Case(DAEMON_SET, hostile_url)

    assert case.meter() == ["sealed"]
    assert case.billed() == {"one": 3600, "two": 3600}


@pytest.mark.parametrize("setup", [IDLE, NODES_ALONE], ids=["idle target", "nodes alone"])
def test_a_target_that_does_not_carry_pods_does_not_cover_for_them(
    hostile_url: str, setup: Setup
) -> None:
    case = Case(setup, hostile_url)

    assert case.meter() == ["gap"]
    assert f"600 s of this hour were not observed by {A}" in case.summary()
    assert case.decide(GapPolicy.ACCEPT) == ["sealed"]
    assert case.billed() == {"only": 3600}


def test_another_number_of_shards_within_the_hour_is_no_hole(hostile_url: str) -> None:
    case = Case(RESHARDED, hostile_url)

    assert case.meter() == ["sealed"]
    assert case.billed() == {"first": 3600, "second": 3600, "third": 1695}
    assert window().unobserved_seconds == 0


def test_two_copies_of_prometheus_cover_for_the_holes_of_each_other(hostile_url: str) -> None:
    case = Case(TWO_COPIES, hostile_url)

    assert case.meter() == ["sealed"]
    assert case.billed() == {"long": 3600}
    assert window().unobserved_seconds == 0
