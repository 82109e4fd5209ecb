"""Corrections and rechecks in the admin: shown to who may look, decided by who may write."""

import re

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
from tests.support.shared_rows import shared_rows

CORRECTIONS = "/admin/metering/usagecorrection/"
WINDOWS = "/admin/metering/meteringwindow/"

pytestmark = pytest.mark.django_db


@shared_rows
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


def test_a_correction_shows_what_it_changes_of_each_pod_and_no_raw_row(
    correction: UsageCorrection, frank: User
) -> None:
    client = Client()
    client.force_login(frank)

    page = client.get(f"{CORRECTIONS}{correction.pk}/change/").content.decode()

    cells = [" ".join(cell.split()) for cell in re.findall(r"<td[^>]*>([^<]*)</td>", page)]
    assert cells[-3:] == ["1.00", "-0.17", "0.83"]
    assert "team-nlp/" in page
    assert correction.digest not in page
    assert "Requested by id" not in page


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


RECORDS = "/admin/metering/usagerecord/"


@shared_rows
def record() -> UsageRecord:
    """An hour of a pod, sealed."""
    bind(make_cluster(metered_from=HOUR), "team-nlp", make_project(make_organization()))
    seal_hour(pod("a"))
    return UsageRecord.objects.get()


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_a_record_is_corrected_on_its_page_after_a_preview(
    record: UsageRecord, frank: User
) -> None:
    client, page = client_of(frank), f"{RECORDS}{record.pk}/change/"
    chosen = {"correction": "change", "unit_seconds": "-600"}

    shown = client.get(page, chosen).text
    unnamed = client.post(page, {**chosen, "note": ""}, follow=True).text
    assert not UsageCorrection.objects.exists()
    done = client.post(page, {**chosen, "note": "The node was broken."})

    for name, text in (("now", "1.00"), ("then", "0.83")):
        assert re.search(rf"Unit-hours {name}</th>\s*<td>{text}", shown)
    assert "Another person approves it: a platform admin" in shown
    assert "The decision has no reason." in unnamed
    made = UsageCorrection.objects.get()
    assert (made.state, made.unit_seconds, made.requested_by) == ("proposed", -600, "frank")
    assert made.reason == "The node was broken."
    assert done["Location"] == f"{CORRECTIONS}{made.pk}/change/"
    own = client.get(done["Location"]).text
    assert "You asked for this. It is approved by another person" in own
    assert 'value="approve_corrections"' not in own


def test_a_record_is_taken_away_at_once_without_four_eyes(record: UsageRecord, frank: User) -> None:
    page = f"{RECORDS}{record.pk}/change/"

    with override_settings(FOUR_EYES=False):
        client_of(frank).post(
            page, {"correction": "retract", "unit_seconds": "", "note": "Broken."}
        )

    assert sorted(UsageRecord.objects.values_list("unit_seconds", flat=True)) == [-3600, 3600]


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        ({"correction": "change", "unit_seconds": "-3601"}, "takes away more than was used"),
        ({"correction": "change", "unit_seconds": "1"}, "use at most 3600 unit-seconds"),
        ({"correction": "change", "unit_seconds": "0"}, "changes nothing"),
        ({"correction": "change", "unit_seconds": ""}, "Give a number"),
        ({"correction": "retract", "unit_seconds": "5"}, "Give a number"),
        ({"correction": "change", "unit_seconds": "1e5"}, "Enter a whole number."),
    ],
)
def test_what_no_correction_can_do_is_refused_before_it_is_requested(
    record: UsageRecord, frank: User, chosen: dict[str, str], text: str
) -> None:
    client, page = client_of(frank), f"{RECORDS}{record.pk}/change/"

    shown = client.get(page, chosen).text
    pressed = client.post(page, {**chosen, "note": "Because."}, follow=True).text

    assert text in shown
    assert "Another person approves it" not in shown
    assert text in pressed
    assert not UsageCorrection.objects.exists()


def test_an_auditor_reads_who_may_correct_and_requests_nothing(record: UsageRecord) -> None:
    ann = make_user("ann", is_staff=True)
    grant(ann, Role.AUDITOR)
    page = f"{RECORDS}{record.pk}/change/"

    shown = client_of(ann).get(page, {"correction": "retract"}).text
    pressed = client_of(ann).post(page, {"correction": "retract", "note": "Because."})

    assert "It may be corrected by a platform admin" in shown
    assert "Show what it changes" not in shown
    assert pressed.status_code == 403
    assert not UsageCorrection.objects.exists()
