"""A gap that a person decided to hold is billed once its evidence is back and a person asks."""

import pytest

from metering.domain.collection.windows import GapPolicy
from metering.domain.corrections.correction import RecheckReason
from metering.domain.corrections.exceptions import REMEDIES, ExceptionKind
from metering.models import MeteringException, MeteringWindow, WindowRecheck
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.hour_decisions import decide_window, retry_window
from metering.services.collection.sweeping import Worker, meter_due
from metering.services.corrections.exceptions import resolve_exception
from metering.services.corrections.rechecks import ask_recheck
from tenants.models import Cluster, Project
from tests.support.metering.collecting import exceptions
from tests.support.metering.rechecking import FIRST, SEALED_AT, corrections, learn, recheck, sums
from tests.support.metering.seen import ACTOR, HOUR, moment, observation, pod, worker

pytestmark = pytest.mark.django_db

HELD = [("held_hour", "a nvidia_com_gpu", 3600)]


@pytest.fixture(autouse=True)
def stage(project: Project, cluster: Cluster) -> None:  # noqa: ARG001 - The open window.
    ensure_catalogue(actor=ACTOR, at=HOUR)


@pytest.fixture
def held() -> Worker:
    """Return the worker of a sealed hour that a person held, since hardly any of it was seen."""
    metering = worker(observation(pod("a"), ticks=(moment(3607), moment(3637))))
    MeteringWindow.objects.update(state="gap", observed_ticks=0)
    decide_window(
        window_id=the_hour().pk,
        decision=GapPolicy.HOLD,
        note="Unclear.",
        actor=ACTOR,
        at=SEALED_AT,
    )
    meter_due(worker=metering, at=SEALED_AT)
    assert (the_hour().state, sums(), exceptions()) == ("sealed", {}, HELD)
    return metering


def the_hour() -> MeteringWindow:
    return MeteringWindow.objects.get(start_at=HOUR)


def ask() -> None:
    ask_recheck(window_id=the_hour().pk, reason=RecheckReason.PERSON, actor=ACTOR, at=FIRST)


def test_a_held_hour_stays_held_while_nobody_asks_for_it(held: Worker) -> None:
    learn(held, pod("a"))

    recheck(held)

    assert (sums(), corrections(), exceptions()) == ({}, [], HELD)


def test_a_person_who_looks_again_bills_what_is_known_then(held: Worker) -> None:
    learn(held, pod("a"))
    ask()

    recheck(held)

    assert (sums(), exceptions()) == ({"a": 3600}, [])
    assert corrections() == [("released", "posted", 1, 3600)]


def test_a_held_hour_whose_evidence_is_still_missing_is_asked_about_again_later(
    held: Worker,
) -> None:
    ask()

    recheck(held)

    assert WindowRecheck.objects.get(reason="person").state == "due"
    assert (sums(), exceptions()) == ({}, HELD)


def test_what_a_person_left_off_is_not_billed_by_another_look(held: Worker) -> None:
    found = MeteringException.objects.get()
    resolve_exception(exception_id=found.pk, note="An outage of ours.", actor=ACTOR, at=SEALED_AT)
    learn(held, pod("a"))
    ask()

    recheck(held)

    assert (sums(), corrections()) == ({}, [])


def test_a_held_hour_that_is_not_sealed_is_billed_when_it_is_metered_again() -> None:
    metering = worker(observation(pod("a")))
    MeteringWindow.objects.update(state="gap", gap_policy="hold", accepts_low_coverage=True)

    retry_window(window_id=the_hour().pk, note="It is back.", actor=ACTOR, at=SEALED_AT)
    meter_due(worker=metering, at=SEALED_AT)

    assert (sums(), exceptions()) == ({"a": 3600}, [])


def test_the_remedy_says_what_works() -> None:
    assert REMEDIES[ExceptionKind.HELD_HOUR] == (
        "Once the hour's evidence is back, meter it again, or recheck it if it is sealed: "
        "what is known then is billed. Or resolve this with a reason to leave it off the bill."
    )
