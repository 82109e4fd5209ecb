"""Previews show what a draft would have, for many months in as many statements as for one."""

from dataclasses import replace
from decimal import Decimal

import pytest
import time_machine
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from billing.domain.errors import DraftStaleError
from billing.models import BillingPeriod, Invoice
from billing.selectors.closing import readiness_of, reasons_against
from billing.selectors.documents.previews import costs_to_date, preview_lines, read_months
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.pricing.tiers import publish_tiers
from tests.support.billing.ledger import DORA, ERIC, HOUR
from tests.support.billing.office import Office
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import AT, MONTH_START
from tests.support.tenants.clients import api_client, problem

pytestmark = pytest.mark.django_db


def october() -> list[BillingPeriod]:
    return list(BillingPeriod.objects.filter(label="2026-10").select_related("organization"))


def test_the_previews_of_many_months_have_the_lines_of_their_drafts(office: Office) -> None:
    publish_tiers(price_book=office.book, rule=make_rule(), actor=DORA, at=AT)

    previews = preview_lines(october())

    for period in october():
        draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
        kept = draft.lines.order_by("position").values_list("kind", "unit_seconds", "amount")
        shown = [(line.kind, line.unit_seconds, line.amount.amount) for line in previews[period.pk]]
        assert shown == list(kept)
    assert [len(previews[period.pk]) for period in october()] == [4, 1]


@pytest.mark.usefixtures("office")
def test_more_months_need_no_more_statements() -> None:
    with CaptureQueriesContext(connection) as of_one:
        read_months([october()[0].pk], at=AT)
    with CaptureQueriesContext(connection) as of_all:
        readings = read_months([period.pk for period in october()], at=AT)

    assert len(of_all) == len(of_one)
    assert len(readings) == 2


def test_months_read_together_have_the_reasons_of_each(office: Office) -> None:
    early = office.period.hours.upper - HOUR
    months = october()

    for at in (early, AT):
        readings = read_months([period.pk for period in months], at=at)

        for period in months:
            alone = reasons_against(period, readiness_of(period, at=at), at=at)
            assert readings[period.pk].problems == alone
    assert {problem.code for problem in alone} <= {"windows_not_sealed"}


def test_a_reading_older_than_a_draft_is_not_used(office: Office) -> None:
    reading = read_months([office.period.pk], at=AT)[office.period.pk]
    outdated = replace(reading, lines=reading.lines[:1])

    draft_invoice(period_id=office.period.pk, actor=DORA, at=AT + HOUR, terms=SITE_TERMS)
    again = draft_invoice(
        period_id=office.period.pk, actor=DORA, at=AT + 2 * HOUR, reading=outdated, terms=SITE_TERMS
    )
    assert again.lines.count() == len(reading.lines) > 1

    fresh = replace(outdated, at=AT + 3 * HOUR)
    used = draft_invoice(
        period_id=office.period.pk, actor=DORA, at=AT + 3 * HOUR, reading=fresh, terms=SITE_TERMS
    )
    assert used.lines.count() == 1
    with pytest.raises(DraftStaleError):
        finalize_invoice(invoice_id=used.pk, actor=ERIC, at=AT + 4 * HOUR, terms=SITE_TERMS)


@pytest.mark.usefixtures("office")
def test_a_running_month_shows_its_cost_to_date_and_writes_nothing() -> None:
    assert sorted(costs_to_date("2026-10").values()) == [Decimal("0.03"), Decimal("3.00")]
    assert not Invoice.objects.exists()


def test_the_cost_to_date_is_shown_over_rest_to_those_who_see_the_month(office: Office) -> None:
    path = f"/api/v1/billing-periods/{office.period.pk}/preview/"

    shown = api_client(office.cast.dora).get(path).json()

    assert shown["total"] == {"amount": "3.00", "currency": "EUR"}
    assert [line["amount"]["amount"] for line in shown["lines"]] == ["2.00", "1.00"]
    assert shown["lines"][0]["unit_price"] == {"amount": "2.00", "currency": "EUR"}
    assert problem(api_client(office.cast.mallory).get(path)) == (404, "not_found")


def test_the_month_close_page_shows_the_cost_to_date_of_a_running_month(office: Office) -> None:
    User.objects.update(is_staff=True)
    client = Client()
    client.force_login(office.cast.dora)
    path = f"{reverse('admin:billing_billingperiod_close_month')}?month=2026-10"

    with time_machine.travel(MONTH_START + 5 * HOUR, tick=False):
        plain = client.get(path).content.decode()
        shown = client.get(f"{path}&to_date=1").content.decode()

    assert "Show the cost to date" in plain
    assert "3.00 EUR" not in plain
    assert "Net cost to date" in shown
    assert "3.00 EUR" in shown
