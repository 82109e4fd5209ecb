"""Admin pages of metering: who looks, and that buttons call services with a reason."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from metering.models import (
    ExceptionState,
    MeteringException,
    MeteringWindow,
    ReconciliationDecision,
    UsageRecord,
    WindowDivision,
)
from metering.services.collection.sweeping import meter_due
from metering.services.devices.collection import collect_due_devices
from tenants.models import AuditEntry
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.alike import excepted
from tests.support.metering.seen import (
    HOUR,
    LATER,
    device,
    moment,
    observation,
    pod,
    ticks,
    worker,
)
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

TABLES = (
    "usagerecord",
    "podallocation",
    "capacityrecord",
    "deviceusage",
    "meteringwindow",
    "meteringexception",
    "catalogueversion",
)

SHOWN_FIGURES: dict[str, object] = {
    "observed_ticks": 0,
    "unit_seconds": 19800,
    "billed_unit_seconds": {"large": 7200},
    "held_unit_seconds": {"unbound_namespace": 3600, "unknown_resource": 9000},
}
SHOWN_TEXTS = (
    "Billed if accepted: large",
    "2.00 unit-hours",
    "Kept in exceptions: unbound namespace",
    "1.00 unit-hours",
    "Kept in exceptions: unknown resource",
    "2.50 in hours of its own units, not in GPUs",
    "Hours without a scrape",
)


@shared_rows
def cast() -> Cast:
    """Everybody, let into the admin site, after an hour and one that was hardly seen."""
    people = make_cast()
    User.objects.update(is_staff=True)
    bind(make_cluster(metered_from=HOUR), "llm", people.llm)
    second = HOUR + timedelta(hours=1)
    metering = worker(
        observation(
            pod("a", namespace="llm"),
            pod("b", namespace="stray"),
            devices=(device(namespace="llm", pod="pod-a"),),
        ),
        observation(
            start_at=second,
            end_at=second + timedelta(hours=1),
            ticks=ticks(begin=1800, start_at=second),
        ),
    )
    meter_due(worker=metering, at=moment(2 * 3600 + LATER))
    collect_due_devices(worker=metering, at=moment(2 * 3600 + LATER))
    return people


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def press(client: Client, table: str, action: str, pk: int, note: str = "") -> str:
    """Press a button for one row; return the page that follows."""
    answer = client.post(
        f"/admin/metering/{table}/",
        {"action": action, "_selected_action": str(pk), "note": note, "index": "0"},
        follow=True,
    )
    assert answer.status_code == 200
    return answer.content.decode()


def confirm(client: Client, page: str, **fields: str) -> str:
    """Press the button of a page that shows what a decision would do."""
    names = dict(re.findall(r'name="([\w]+)"[^>]*? value="([^"]*)"', page[page.index("<form") :]))
    answer = client.post("/admin/metering/meteringwindow/", {**names, **fields}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_listed_searched_and_opened(cast: Cast, table: str) -> None:
    client = enter(cast.frank)

    page = client.get(f"/admin/metering/{table}/")

    assert page.status_code == 200
    assert client.get(f"/admin/metering/{table}/?q=pod").status_code in {200, 302}
    first = page.context["cl"].result_list[0]
    assert client.get(f"/admin/metering/{table}/{first.pk}/change/").status_code == 200


@pytest.mark.parametrize("table", TABLES)
def test_nothing_metered_is_added_changed_or_deleted_here(cast: Cast, table: str) -> None:
    client = enter(cast.frank)
    first = client.get(f"/admin/metering/{table}/").context["cl"].result_list[0]
    before = type(first).objects.filter(pk=first.pk).values().get()
    # The page of a record has the form of a correction, which shows its preview first.
    refused = {"usagerecord": 302}.get(table, 403)

    assert client.get(f"/admin/metering/{table}/add/").status_code == 403
    assert client.post(f"/admin/metering/{table}/{first.pk}/change/", {}).status_code == refused
    assert client.post(f"/admin/metering/{table}/{first.pk}/delete/", {}).status_code == 403
    assert UsageRecord.objects.count() == 1
    assert type(first).objects.filter(pk=first.pk).values().get() == before


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "mallory"])
def test_a_role_of_one_organization_opens_no_page(cast: Cast, name: str) -> None:
    client = enter(getattr(cast, name))

    for table in TABLES:
        assert client.get(f"/admin/metering/{table}/").status_code == 403


def test_the_queue_shows_the_cause_and_leads_to_the_remedy(cast: Cast) -> None:
    page = enter(cast.ann).get("/admin/metering/meteringexception/?state__exact=open")

    text = page.content.decode()
    assert "Namespace stray belongs to no project at that time." in text
    assert f"/{MeteringException.objects.get(kind='unbound_namespace').pk}/remedy/" in text
    assert 'value="resolve_exceptions"' not in text


def test_an_exception_is_resolved_with_a_reason_as_the_signed_in_person(cast: Cast) -> None:
    found = MeteringException.objects.get(kind="unbound_namespace")

    page = press(
        enter(cast.frank), "meteringexception", "resolve_exceptions", found.pk, "Only a test."
    )

    assert "is resolved." in page
    found.refresh_from_db()
    assert (found.state, found.resolution) == (ExceptionState.RESOLVED, "Only a test.")
    assert found.resolved_by == cast.frank
    assert AuditEntry.objects.get(action="metering:exception:resolve").actor_label == "frank"


def test_without_a_reason_nothing_is_resolved(cast: Cast) -> None:
    found = MeteringException.objects.get(kind="unbound_namespace")

    page = press(enter(cast.frank), "meteringexception", "resolve_exceptions", found.pk)

    assert "The decision has no reason. Say in a sentence why." in page
    found.refresh_from_db()
    assert found.state == ExceptionState.OPEN


@pytest.mark.parametrize(
    ("button", "state_before", "state_after"),
    [
        ("retry_windows", "open", "open"),
        ("retry_windows", "gap", "open"),
        ("accept_windows", "gap", "open"),
        ("waive_windows", "gap", "reconciled"),
        ("waive_windows", "quarantined", "reconciled"),
    ],
)
def test_a_window_that_waits_is_decided_on(
    cast: Cast, button: str, state_before: str, state_after: str
) -> None:
    window = MeteringWindow.objects.get(state="open")
    MeteringWindow.objects.filter(pk=window.pk).update(state=state_before)
    client = enter(cast.frank)

    page = press(client, "meteringwindow", button, window.pk, "The outage of Monday.")
    if button != "retry_windows":
        confirm(client, page)

    window.refresh_from_db()
    assert window.state == state_after
    entry = AuditEntry.objects.filter(object_kind="metering_window").latest("id")
    assert (entry.actor_label, entry.facts["note"]) == ("frank", "The outage of Monday.")


def test_a_sealed_window_says_no(cast: Cast) -> None:
    window = MeteringWindow.objects.get(state="sealed")

    page = press(enter(cast.frank), "meteringwindow", "waive_windows", window.pk, "x")

    assert "Left alone: sealed or about to be" in page
    assert 'name="confirm"' not in page
    window.refresh_from_db()
    assert window.state == "sealed"


def test_an_auditor_has_no_buttons(cast: Cast) -> None:
    window = MeteringWindow.objects.get(state="open")

    press(enter(cast.ann), "meteringwindow", "retry_windows", window.pk, "x")

    assert not AuditEntry.objects.filter(action="metering:window:retry").exists()


def test_a_record_is_shown_with_the_way_back_to_its_evidence(cast: Cast) -> None:
    record = UsageRecord.objects.get()

    page = enter(cast.ann).get(f"/admin/metering/usagerecord/{record.pk}/change/").content.decode()

    assert "Where this comes from" in page
    assert "llm/pod-a used 3600 unit-seconds: 1 x 3600 s." in page
    assert "Catalogue rule matches" in page
    assert page.count("Show the query") >= 1


@pytest.mark.parametrize(
    ("action", "side"), [("accept_kubernetes", "kubernetes"), ("accept_prometheus", "prometheus")]
)
def test_the_evidence_of_one_source_is_accepted_with_a_button(
    cast: Cast, action: str, side: str
) -> None:
    found = excepted(MeteringWindow.objects.get(state="open"), "differs", subject="uid gpu")
    client = enter(cast.frank)

    page = press(client, "meteringexception", action, found.pk, note="The job's log says so.")

    assert "is billed as accepted" in page
    kept = ReconciliationDecision.objects.get()
    assert (kept.side, kept.pod_uid) == (side, "uid")
    found.refresh_from_db()
    assert found.state == ExceptionState.RESOLVED


@pytest.mark.parametrize(
    ("action", "policy"), [("last_known_windows", "last_known"), ("hold_windows", "hold")]
)
def test_a_gap_is_estimated_or_held_with_a_button(cast: Cast, action: str, policy: str) -> None:
    window = MeteringWindow.objects.get(state="open")
    MeteringWindow.objects.filter(pk=window.pk).update(state="gap")

    client = enter(cast.frank)

    confirm(client, press(client, "meteringwindow", action, window.pk, note="Outage."))

    window.refresh_from_db()
    assert (window.state, window.gap_policy) == ("open", policy)


def test_many_hours_are_decided_on_after_a_preview(cast: Cast) -> None:
    shown = MeteringWindow.objects.get(state="open")
    MeteringWindow.objects.filter(pk=shown.pk).update(state="gap", shown=SHOWN_FIGURES)
    client = enter(cast.frank)
    chosen = {"action": "waive_windows", "select_across": "1", "_selected_action": str(shown.pk)}

    page = client.post("/admin/metering/meteringwindow/", {**chosen, "index": "0"}).content.decode()

    assert not AuditEntry.objects.filter(action="metering:window:waive").exists()
    for text in ("Chosen hours", "They are sealed with no usage", *SHOWN_TEXTS):
        assert text in page
    assert "The decision has no reason." in confirm(client, page, note="")
    reported = confirm(client, page, note="The cluster is gone.")
    assert "Hours decided: 1." in reported
    assert "Hours sealed or about to be: 1." in reported
    entry = AuditEntry.objects.get(action="metering:window:waive")
    assert entry.facts["shown"] == SHOWN_FIGURES


def test_an_hour_is_decided_on_from_its_own_page(cast: Cast) -> None:
    window = MeteringWindow.objects.get(state="open")
    MeteringWindow.objects.filter(pk=window.pk).update(state="gap", shown=SHOWN_FIGURES)
    client, base = enter(cast.frank), f"/admin/metering/meteringwindow/{window.pk}"

    hour = client.get(f"{base}/change/").content.decode()
    page = client.get(f"{base}/waive/").content.decode()

    for path in ("accept", "last-known", "hold", "waive"):
        assert f"{base}/{path}/" in hour
        assert f"{base}/{path}/" not in enter(cast.ann).get(f"{base}/change/").content.decode()
    for text in SHOWN_TEXTS:
        assert text in page
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)"', page))
    reported = client.post(
        f"{base}/waive/", {**fields, "confirm": "1", "note": "Gone."}, follow=True
    )
    assert reported.redirect_chain[-1][0] == f"{base}/change/"
    assert "Hours decided: 1." in reported.content.decode()
    window.refresh_from_db()
    assert window.state == "reconciled"
    assert f"{base}/waive/" not in client.get(f"{base}/change/").content.decode()


def test_a_decision_on_a_page_that_is_no_longer_true_is_refused(cast: Cast) -> None:
    window = MeteringWindow.objects.get(state="open")
    MeteringWindow.objects.filter(pk=window.pk).update(state="gap", shown={"digest": "a"})
    client = enter(cast.frank)
    page = press(client, "meteringwindow", "accept_windows", window.pk, "60 of 120.")
    MeteringWindow.objects.filter(pk=window.pk).update(shown={"digest": "b"})

    reported = confirm(client, page)

    assert "Something else is known of the hours now than was shown." in reported
    window.refresh_from_db()
    assert window.state == "gap"


def test_the_page_of_an_hour_says_before_its_details_how_far_its_parts_are(cast: Cast) -> None:
    frank = enter(cast.frank)
    window = MeteringWindow.objects.get(state="open")
    division = WindowDivision.objects.create(
        window=window, as_of=HOUR, not_before=HOUR, created_at=HOUR
    )
    for pods, state in (("[0-7]", "done"), ("[8-9a-f]", "due"), ("![0-9a-f]", "done")):
        division.parts.create(pods=pods, state=state)

    page = frank.get(f"/admin/metering/meteringwindow/{window.pk}/change/").content.decode()
    details = page.index("Work and stored figures")

    assert 0 < page.index("2 of 3 observed") < details
    WindowDivision.objects.update(catalogue_version=1)
    page = frank.get(f"/admin/metering/meteringwindow/{window.pk}/change/").content.decode()
    assert "2 of 3 posted" in page
