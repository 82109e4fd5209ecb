"""Corrections and rechecks in the admin: shown to who may look, decided by who may write."""

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings

from metering.models import MeteringWindow, UsageCorrection, UsageRecord, WindowRecheck
from metering.services.corrections.review import ask_correction
from tenants.domain.identity.roles import Role
from tenants.selectors.actors import actor_of_user
from tests.support.builders import (
    bind,
    grant,
    make_cluster,
    make_organization,
    make_project,
    make_user,
)
from tests.support.metering.rechecking import FIRST, recheck, seal_hour
from tests.support.metering.seen import HOUR, pod

CORRECTIONS = "/admin/metering/usagecorrection/"
WINDOWS = "/admin/metering/meteringwindow/"

pytestmark = pytest.mark.django_db


@pytest.fixture
def frank() -> User:
    """A platform admin, who is staff."""
    user = make_user("frank", is_staff=True)
    grant(user, Role.PLATFORM_ADMIN)
    return user


@pytest.fixture
def correction(frank: User) -> UsageCorrection:
    """Frank's request to take ten minutes off a pod's hour."""
    bind(make_cluster(metered_from=HOUR), "team-nlp", make_project(make_organization()))
    recheck(seal_hour(pod("a")))
    return ask_correction(
        record=UsageRecord.objects.get(),
        unit_seconds=-600,
        reason="The node was broken.",
        is_four_eyes=True,
        actor=actor_of_user(frank),
        at=FIRST,
    )


def press(user: User, page: str, button: str, row: object, note: str = "Because.") -> str:
    """Press a button of a list for one row, and return the page that follows."""
    client = Client()
    client.force_login(user)
    answer = client.post(
        page, {"action": button, "_selected_action": str(row), "note": note}, follow=True
    )
    assert answer.status_code == 200
    return answer.content.decode()


def test_lists_tell_corrections_and_rechecks(correction: UsageCorrection, frank: User) -> None:
    client = Client()
    client.force_login(frank)

    listed = client.get(CORRECTIONS).content.decode()

    assert correction.reason in listed
    assert "proposed" in listed
    assert client.get(f"{CORRECTIONS}{correction.pk}/change/").status_code == 200
    assert "scheduled" in client.get("/admin/metering/windowrecheck/").content.decode().lower()


def test_who_asked_needs_a_second_person(correction: UsageCorrection, frank: User) -> None:
    page = press(frank, CORRECTIONS, "approve_corrections", correction.pk)

    assert "may not approve it" in page
    correction.refresh_from_db()
    assert correction.state == "proposed"


def test_a_second_person_approves(correction: UsageCorrection, frank: User) -> None:
    second = make_user("faye", is_staff=True)
    grant(second, Role.PLATFORM_ADMIN)

    assert "is posted" in press(second, CORRECTIONS, "approve_corrections", correction.pk)

    correction.refresh_from_db()
    assert (correction.state, correction.decided_by, correction.decision_note) == (
        "posted",
        "faye",
        "Because.",
    )
    assert frank.username == correction.requested_by
    assert sorted(UsageRecord.objects.values_list("unit_seconds", flat=True)) == [-600, 3600]


def test_a_rejection_needs_a_reason(correction: UsageCorrection, frank: User) -> None:
    press(frank, CORRECTIONS, "reject_corrections", correction.pk, note="")
    correction.refresh_from_db()
    assert correction.state == "proposed"

    assert "is rejected" in press(frank, CORRECTIONS, "reject_corrections", correction.pk)

    correction.refresh_from_db()
    assert correction.state == "rejected"


@pytest.mark.usefixtures("correction")
def test_a_sealed_hour_is_looked_at_again_by_a_button(frank: User) -> None:
    window = MeteringWindow.objects.get(state="sealed")

    with override_settings(RECHECK_RETENTION_SECONDS=3600):
        refused = press(frank, WINDOWS, "recheck_windows", window.pk)
    assert "no longer tell of the hour" in refused
    with override_settings(RECHECK_RETENTION_SECONDS=10**9):
        assert "is rechecked soon" in press(frank, WINDOWS, "recheck_windows", window.pk)

    asked = WindowRecheck.objects.get(reason="person")
    assert (asked.requested_by, asked.note) == ("frank", "Because.")


def test_an_auditor_looks_and_decides_nothing(correction: UsageCorrection) -> None:
    ann = make_user("ann", is_staff=True)
    grant(ann, Role.AUDITOR)

    press(ann, CORRECTIONS, "approve_corrections", correction.pk)

    correction.refresh_from_db()
    assert correction.state == "proposed"
