"""The page "Month close": one table of all organizations, two steps, refusals beside each other."""

import re
from datetime import date, timedelta
from html import unescape

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from billing.admin import month_steps
from billing.models import BillingPeriod, Invoice
from billing.selectors.months import month_board
from billing.services.closing import review_period
from billing.services.taxes import set_tax_treatment
from metering.models import MeteringException, MeteringWindow, PodAllocation, UsageRecord
from tenants.domain.actors import Actor, ActorKind
from tenants.domain.identity.roles import Role
from tenants.models import AuditEntry, Organization, SweepCrash
from tests.support.billing.ledger import DORA, Use, accrue_everything, make_ledger, sealed_window
from tests.support.billing.office import Office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END, grant, make_cluster, make_user

PAGE = "admin:billing_billingperiod_close_month"
STEPS = ("finalize", "redraft", "discard")


@pytest.fixture(autouse=True)
def staff(office: Office) -> None:  # noqa: ARG001 - The people must be there.
    User.objects.update(is_staff=True)


def visit(user: User, **form: str) -> str:
    """Return the page of October as text, after a step if a form is given."""
    client = Client()
    client.force_login(user)
    url = f"{reverse(PAGE)}?month=2026-10"
    answer = client.post(url, form) if form else client.get(url)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())))


def finalize_all(user: User) -> str:
    """Return the page after the question was answered for what it showed."""
    client = Client()
    client.force_login(user)
    url = reverse(PAGE)
    asked = client.post(url, {"step": "finalize", "month": "2026-10"}).content.decode()
    found = re.search(r'name="seen" value="([^"]*)"', asked)
    return visit(user, step="finalize", confirmed="1", seen=found[1] if found else "")


def finance(name: str) -> User:
    user = make_user(name, is_staff=True)
    grant(user, Role.FINANCE_ADMIN)
    return user


def states() -> dict[str, str]:
    rows = BillingPeriod.objects.filter(label="2026-10").values_list("organization__slug", "state")
    return dict(rows)


def test_two_people_close_all_months_with_five_clicks(office: Office) -> None:
    eric = finance("eric")

    assert "2 ready for review" in visit(office.cast.dora)
    assert "2 sent to review." in visit(office.cast.dora, step="review")
    assert "You sent 2 months to review" in visit(office.cast.dora)
    asked = visit(eric, step="finalize")
    assert "2 invoices get their numbers and are frozen. 3.03 EUR to pay in all." in asked
    assert states() == {"acme": "review", "umbrella": "review"}
    assert "2 finalized." in finalize_all(eric)

    assert states() == {"acme": "closed", "umbrella": "closed"}
    assert sorted(Invoice.objects.values_list("number", "state")) == [(1, "final"), (2, "final")]


def test_what_one_person_sent_to_review_that_person_does_not_finalize(office: Office) -> None:
    visit(office.cast.dora, step="review")

    assert "0 finalized." in visit(office.cast.dora, step="finalize", confirmed="1")

    assert states() == {"acme": "review", "umbrella": "review"}


def test_the_draft_of_a_month_in_review_has_no_button_that_would_be_refused(office: Office) -> None:
    visit(office.cast.dora, step="review")
    draft = Invoice.objects.get(organization=office.cast.acme)
    client = Client()
    client.force_login(finance("eric"))

    page = client.get(reverse("admin:billing_invoice_change", args=[draft.pk])).text

    steps = {name: reverse(f"admin:billing_invoice_{name}", args=[draft.pk]) for name in STEPS}
    assert [name for name, address in steps.items() if address in page] == ["finalize"]
    assert "Its month is in review." in page


def test_what_the_question_did_not_show_is_not_finalized(office: Office) -> None:
    eric = finance("eric")
    visit(office.cast.dora, step="review")
    shown = Invoice.objects.get(organization=office.cast.acme)
    seen = f"{shown.pk}:{shown.version}"

    outdated = visit(eric, step="finalize", confirmed="1", seen=f"{shown.pk}:{shown.version + 1}")
    text = visit(eric, step="finalize", confirmed="1", seen=f"{seen},nonsense")

    assert "0 finalized." in outdated
    assert "1 finalized." in text
    assert states() == {"acme": "closed", "umbrella": "review"}
    assert "0 finalized." in visit(eric, step="finalize", confirmed="1")


def test_a_month_that_waits_says_why_and_stops_no_other(office: Office) -> None:
    sealed_window(make_cluster("other"), [Use(office.cast.llm, size="large")])
    accrue_everything()

    text = visit(office.cast.dora, step="review")

    assert "1.0000 unit-hours without a price" in text
    assert states()["acme"] == "open"
    assert states()["umbrella"] == "review"


def test_a_refusal_is_shown_beside_what_was_done(office: Office) -> None:
    acme = office.period
    months = month_board("2026-10", ended_by=AT)
    assert [month.slug for month in months] == ["acme", "umbrella"]
    review_period(
        period_id=acme.pk,
        actor=Actor(kind=ActorKind.PERSON, id="9", label="faye"),
        at=AT,
        terms=SITE_TERMS,
    )
    Organization.objects.filter(pk=office.cast.acme.pk).update(billing_address="Elsewhere 1")
    visit(office.cast.dora, step="review")

    text = finalize_all(finance("eric"))

    assert "1 finalized." in text
    assert "Acme: What is printed of issuer or customer has changed" in text
    assert states() == {"acme": "review", "umbrella": "closed"}


def test_a_fault_of_one_month_is_shown_and_stops_no_other(office: Office) -> None:
    visit(office.cast.dora, step="review")
    draft = Invoice.objects.get(organization=office.cast.acme)
    broken = {name: text for name, text in draft.document.items() if name != "issuer"}
    Invoice.objects.filter(pk=draft.pk).update(document=broken)

    text = finalize_all(finance("eric"))

    assert "1 finalized." in text
    assert "Acme: A fault stopped it; nothing of it was changed." in text
    assert states() == {"acme": "review", "umbrella": "closed"}
    crash = SweepCrash.objects.get()
    assert (crash.event, crash.last_key) == ("billing.month_close.failed", str(draft.pk))


def test_a_step_that_takes_too_long_goes_on_where_it_stopped(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(month_steps, "SLICE_SECONDS", 0)

    first = visit(office.cast.dora, step="review")
    rest = visit(office.cast.dora, step="review", after="acme")

    assert "1 sent to review. 1 are left." in first
    assert "1 sent to review. Continue" not in rest
    assert states() == {"acme": "review", "umbrella": "review"}


def hold(kind: str, *, pod: str, resource: str = "") -> None:
    """Open an exception that holds two hours of a pod of acme."""
    window = MeteringWindow.objects.earliest("start_at")
    MeteringException.objects.create(
        cluster=window.cluster,
        window=window,
        window_start=window.start_at,
        kind=kind,
        subject=f"{pod} {resource}".strip(),
        details={"resource": resource} if resource else {},
        namespace="llm",
        summary="s",
        remedy="r",
        held_unit_seconds=7200,
        created_at=AT,
    )


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("uncertain_end", " 2.0000 unit-hours in 1 exception "),
        # Its units are those of no size: they are not added up with unit-hours.
        ("unknown_device", " 1 exception "),
    ],
)
def test_usage_that_metering_holds_is_shown_as_not_on_the_bill(
    office: Office, kind: str, shown: str
) -> None:
    hold(kind, pod="pod-1")

    text = visit(office.cast.dora)
    assert shown in text
    assert ("unit-hours in" in text) == ("unit-hours in" in shown)
    client = Client()
    client.force_login(office.cast.dora)
    page = client.get(f"{reverse(PAGE)}?month=2026-10").content.decode()
    (address,) = re.findall(r'href="([^"]*organization=acme[^"]*)"', page)
    for slug, count in (("acme", 1), ("umbrella", 0)):
        rows = client.get(unescape(address).replace("acme", slug)).content.decode()
        assert rows.count("field-namespace") == count


def test_usage_that_no_rule_sizes_has_an_unknown_cost(office: Office) -> None:
    hold("uncertain_end", pod="nowhere")

    assert "2.0000 unit-hours in 1 exception cost unknown: no price" in visit(office.cast.dora)


def test_what_is_not_on_the_bill_is_shown_as_money(office: Office) -> None:
    usage = UsageRecord.objects.filter(organization=office.cast.acme).earliest("pk")
    PodAllocation.objects.create(
        cluster=usage.cluster,
        pod_uid="pod-1",
        pod_name="p",
        namespace="llm",
        resource=usage.resource,
        size=usage.size,
        price_group=usage.price_group,
        catalogue_version=usage.catalogue_version,
        units=1,
        begin_at=AT,
        last_seen_at=AT,
    )
    hold("uncertain_end", pod="pod-1", resource=usage.resource)

    assert "2.0000 unit-hours in 1 exception about 4.00 EUR" in visit(office.cast.dora)


def test_a_month_without_a_tax_rate_is_blocked_before_anybody_sends_it(office: Office) -> None:
    set_tax_treatment(
        organization=office.cast.acme,
        country="DE",
        category="S",
        valid_from=date(2026, 1, 1),
        actor=DORA,
        at=AT,
    )

    before = visit(office.cast.dora)
    visit(office.cast.dora, step="review")

    assert "1 blocked, 1 ready for review" in before or "1 ready for review, 1 blocked" in before
    assert "no tax rate of DE, category S, on 2026-10-31" in before
    assert states() == {"acme": "open", "umbrella": "review"}
    client = Client()
    client.force_login(office.cast.dora)
    page = client.get(f"{reverse(PAGE)}?month=2026-10").text
    assert f'href="{reverse("admin:billing_taxrate_changelist")}?"' in page


def test_an_unusual_month_is_sent_to_review_with_a_reason_only(office: Office) -> None:
    eric = finance("eric")
    visit(office.cast.dora, step="review")
    finalize_all(eric)
    cluster = MeteringWindow.objects.earliest("start_at").cluster
    sealed_window(cluster, [Use(office.cast.virus, 36000, units=10)], start_at=MONTH_END)
    accrue_everything()
    client = Client()
    november = BillingPeriod.objects.get(organization=office.cast.umbrella, label="2026-11")
    url = f"{reverse(PAGE)}?month=2026-11"
    form = {"step": "acknowledge", "period": str(november.pk)}

    with time_machine.travel(MONTH_END + timedelta(days=31), tick=False):
        client.force_login(office.cast.dora)
        refused = client.post(url, form).content.decode()
        accepted = client.post(url, {**form, "acknowledgement": "A launch."}).content.decode()

    assert "costs more than 3 times the usual" in refused
    assert 'placeholder="Why it is right"' in refused
    assert "1 sent to review." in accepted
    entry = AuditEntry.objects.get(action="billing:period:review", object_id=str(november.pk))
    assert entry.facts["acknowledgement"] == "A launch."


def test_an_auditor_looks_and_does_nothing(office: Office) -> None:
    text = visit(office.cast.ann, step="review")

    assert "This may be done by a finance admin." in text
    assert states() == {"acme": "open", "umbrella": "open"}


@pytest.mark.usefixtures("office")
def test_the_board_takes_as_many_statements_for_many_organizations() -> None:
    with CaptureQueriesContext(
        connection,
    ) as few:
        month_board("2026-10", ended_by=AT)
    for number in range(5):
        make_ledger(f"more-{number}")
    accrue_everything()

    with CaptureQueriesContext(connection) as many:
        month_board("2026-10", ended_by=AT)

    assert len(few) == len(many) == 5


def test_a_month_is_one_file_by_one_click(office: Office) -> None:
    client = Client()
    client.force_login(office.cast.dora)
    period = BillingPeriod.objects.get(organization=office.cast.acme, label="2026-10")
    page = reverse("admin:billing_billingperiod_change", args=[period.pk])

    of_all = client.get(f"{reverse(PAGE)}?export=1&month=2026-10")
    button = reverse("admin:billing_billingperiod_export_period", args=[period.pk])
    of_one = client.get(button)
    refused = client.get(f"{reverse(PAGE)}?export=1&month=10", follow=True)

    assert "export=1&amp;month=2026-10" in client.get(f"{reverse(PAGE)}?month=2026-10").text
    assert button in client.get(page).text
    assert of_all["Content-Disposition"].endswith('"gpu-ledger-2026-10.zip"')
    assert of_one["Content-Disposition"].endswith('"gpu-ledger-acme-2026-10.zip"')
    assert of_one.getvalue().startswith(b"PK")
    assert "month" in next(str(message) for message in refused.context["messages"])
