"""Admin pages of waste and health: who looks, and that buttons call services with a reason."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from metering.models import CreditProposal, DeviceEvent, WasteFinding
from tenants.models import AuditEntry
from tests.support.builders import make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.waste_world import DAY, IDLE, WasteWorld, derive, make_catalogue, seal
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
TABLES = ("wastefinding", "deviceevent", "creditproposal", "clusterhealth")


@shared_rows
def cast() -> Cast:
    """Everybody, let into the admin site, after an idle hour on a GPU that failed."""
    people = make_cast()
    User.objects.update(is_staff=True)
    make_catalogue()
    world = WasteWorld(people.acme, people.llm, make_cluster())
    pod = world.hold()
    window = world.window(0)
    world.use(window, pod)
    world.measure(window, pod, IDLE)
    world.fail(window, 600)
    seal(window)
    derive()
    return people


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def press(user: User, table: str, action: str, pk: int, note: str = "") -> str:
    """Press a button for one row; return the page that follows."""
    answer = enter(user).post(
        f"/admin/metering/{table}/",
        {"action": action, "_selected_action": str(pk), "note": note, "index": "0"},
        follow=True,
    )
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_listed_and_opened_and_nothing_is_added(cast: Cast, table: str) -> None:
    client = enter(cast.ann)

    page = client.get(f"/admin/metering/{table}/")

    first = page.context["cl"].result_list[0]
    assert client.get(f"/admin/metering/{table}/{first.pk}/change/").status_code == 200
    assert client.get(f"/admin/metering/{table}/add/").status_code == 403
    assert client.post(f"/admin/metering/{table}/{first.pk}/delete/", {}).status_code == 403


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "mallory"])
def test_a_role_of_one_organization_opens_no_page(cast: Cast, name: str) -> None:
    for table in TABLES:
        assert enter(getattr(cast, name)).get(f"/admin/metering/{table}/").status_code == 403


def test_a_finding_says_what_would_serve_and_is_dismissed(cast: Cast) -> None:
    finding = WasteFinding.objects.get()
    page = enter(cast.frank).get("/admin/metering/wastefinding/").content.decode()
    assert "give it back" in page
    assert "1\N{NO-BREAK SPACE}x\N{NO-BREAK SPACE}H100/whole" in page

    refused = press(cast.frank, "wastefinding", "dismiss_findings", finding.pk)
    done = press(cast.frank, "wastefinding", "dismiss_findings", finding.pk, "A standby.")

    assert "The decision has no reason." in refused
    assert "is dismissed." in done
    finding.refresh_from_db()
    assert (finding.state, finding.dismissed_by) == ("dismissed", cast.frank)


def test_a_smaller_instance_is_named_where_one_would_serve(cast: Cast) -> None:
    WasteFinding.objects.update(suggested_units=1, suggested_price_group="H100/1g.10gb")

    page = enter(cast.ann).get("/admin/metering/wastefinding/").content.decode()

    assert "1\N{NO-BREAK SPACE}x\N{NO-BREAK SPACE}H100/1g.10gb" in page
    assert 'value="dismiss_findings"' not in page


@pytest.mark.parametrize(
    ("button", "state"), [("accept_credits", "accepted"), ("dismiss_credits", "dismissed")]
)
def test_finance_decides_a_credit_with_a_reason(cast: Cast, button: str, state: str) -> None:
    proposal = CreditProposal.objects.get()

    press(cast.frank, "creditproposal", button, proposal.pk, "XID 79.")
    assert CreditProposal.objects.get().state == "proposed"
    press(cast.dora, "creditproposal", button, proposal.pk, "XID 79.")

    proposal.refresh_from_db()
    assert (proposal.state, proposal.decided_by) == (state, cast.dora)


@pytest.mark.parametrize("button", ["accept_credits", "dismiss_credits"])
def test_a_withdrawn_credit_is_shown_and_decided_by_nobody(cast: Cast, button: str) -> None:
    CreditProposal.objects.update(state="withdrawn", unit_seconds=0, reason="Taken back.")
    proposal = CreditProposal.objects.get()
    listed = enter(cast.dora).get("/admin/metering/creditproposal/?state__exact=withdrawn")
    assert "Taken back." in listed.content.decode()

    page = press(cast.dora, "creditproposal", button, proposal.pk, "XID 79.")

    assert "Corrections took back what would have been credited." in page
    proposal.refresh_from_db()
    assert (proposal.state, proposal.decided_by) == ("withdrawn", None)


def test_what_nobody_can_say_is_unknown_and_comes_after_what_is_nothing(cast: Cast) -> None:
    one = WasteFinding.objects.get()
    WasteFinding.objects.update(
        suggested_units=1, wasted_unit_seconds=0, memory_peak_mebibytes=None
    )
    nothing = WasteFinding.objects.get()
    nothing.pk, nothing.pod_uid, nothing.memory_peak_mebibytes = None, "other", 70_000
    nothing.save()
    client = enter(cast.ann)

    answer = client.get("/admin/metering/wastefinding/")
    page = answer.content.decode()

    assert [row.pk for row in answer.context["cl"].result_list] == [nothing.pk, one.pk]
    assert [page.count(f">{words}</td>") for words in ("0.00", "unknown")] == [1, 1]
    assert page.count("unknown: no memory figure") == 1
    assert page.count("nothing smaller") == 1
    detail = client.get(f"/admin/metering/wastefinding/{one.pk}/change/").content.decode()
    assert "Wasted unit seconds" not in detail


def test_the_platform_ends_an_event_with_a_reason(cast: Cast) -> None:
    event = DeviceEvent.objects.get()

    page = press(cast.frank, "deviceevent", "end_events", event.pk, "Drained.")

    assert "is over." in page
    event.refresh_from_db()
    assert event.end_at is not None
    assert event.end_at > DAY + timedelta(minutes=10)
    assert AuditEntry.objects.get(action="metering:device_event:end").actor_label == "frank"


def test_health_says_dash_for_what_nobody_knew(cast: Cast) -> None:
    page = enter(cast.ann).get("/admin/metering/clusterhealth/").content.decode()

    assert "Nodes, queue and device errors of each sealed hour" in page
