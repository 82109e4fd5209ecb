"""A line opens: its arithmetic, its days, the charges of a day, their pods, and back."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.test import Client
from django.test.utils import CaptureQueriesContext

from billing.models import Charge, Invoice, InvoiceLine, Price
from tenants.domain.identity.roles import Role
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import (
    HOUR,
    Use,
    accrue_everything,
    make_ledger,
    make_price,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.office import Office
from tests.support.builders import MONTH_END, MONTH_START, grant
from tests.support.cast import make_cast
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client

PAGE = "/admin/billing/invoice/"
STATEMENTS_MAX = 20
BYTES_MAX = 300 * 1024
NOVEMBER_OVER = MONTH_END + 31 * 24 * HOUR


@shared_rows
def final(office: Office) -> Invoice:
    User.objects.exclude(username="carol").update(is_staff=True)
    return finalize(draft(office.cast.acme, "2026-10"))


def open_page(user: User, path: str) -> Any:  # noqa: ANN401 - Django's answer with its context.
    client = Client()
    client.force_login(user)
    answer = client.get(path, follow=True)
    assert answer.status_code == 200, path
    return answer


def line_of(invoice: Invoice, project: str = "llm") -> InvoiceLine:
    return invoice.lines.get(project__slug=project)


def test_a_line_opens_into_days_charges_and_pods_and_each_page_leads_back(
    office: Office, final: Invoice
) -> None:
    dora, line = office.cast.dora, line_of(final)
    invoice_page = f"{PAGE}{final.pk}/change/"
    line_page = f"{PAGE}lines/{line.pk}/"
    day_page = f"{line_page}2026-10-01/"

    assert f'href="{line_page}"' in open_page(dora, invoice_page).content.decode()
    opened = open_page(dora, line_page)
    assert f'href="{invoice_page}"' in opened.content.decode()
    assert opened.context_data["steps"].steps == (
        ("Unit-hours", "1.0000"),
        ("Price of a unit-hour", "2.00 EUR"),
        ("Amount of the line", "2.00 EUR"),
    )
    assert [(day["hours"], day["link"]) for day in opened.context_data["days"]] == [
        ("1.0000", day_page)
    ]
    assert opened.context_data["sums"]["once"] == "2.00 EUR"

    day = open_page(dora, day_page)
    assert f'href="{line_page}"' in day.content.decode()
    ((row,),) = [day.context_data["charges"]]
    ((record, hours),) = row["records"]
    assert (row["cost"], hours) == ("2.00 EUR", "1.0000")

    charge = open_page(dora, f"/admin/billing/charge/{row['charge'].pk}/change/")
    assert f'href="{day_page}"' in charge.content.decode()
    assert "1 usage record, in all 3,600 unit-seconds: the charge is of 3,600." in (
        charge.content.decode()
    )
    evidence = open_page(dora, f"/admin/metering/usagerecord/{record.pk}/change/")
    back = f"/admin/billing/charge/of-record/{record.pk}/"
    assert f'href="{back}"' in evidence.content.decode()
    assert open_page(dora, back).redirect_chain[-1][0].endswith(f"/{row['charge'].pk}/change/")


def test_rest_has_the_same_steps_and_their_sums_equal_the_line(
    office: Office, final: Invoice
) -> None:
    alice = api_client(office.cast.alice)

    lines = alice.get(f"/api/v1/invoices/{final.pk}/lines/").json()["results"]
    for line in lines:
        days = alice.get(f"/api/v1/invoice-lines/{line['id']}/days/").json()
        assert sum(day["unit_seconds"] for day in days) == line["unit_seconds"]
        for day in days:
            query = {"line": line["id"], "day": day["day"]}
            charges = alice.get("/api/v1/charges/", query).json()["results"]
            assert len(charges) == day["charges"]
            assert sum(one["unit_seconds"] for one in charges) == day["unit_seconds"]
            for charge in charges:
                records = alice.get(f"/api/v1/charges/{charge['id']}/usage-records/").json()
                assert sum(one["unit_seconds"] for one in records) == charge["unit_seconds"]
                steps = alice.get(f"/api/v1/usage-records/{records[0]['id']}/explain/")
                assert steps.json()[-1]["heading"] == "The hour"
    assert len(lines) == 2
    assert not alice.get("/api/v1/charges/", {"day": "2026-10-02"}).json()["results"]


def test_a_credit_note_starts_from_the_line_with_what_is_left_typed(
    office: Office, final: Invoice
) -> None:
    dora, line = office.cast.dora, line_of(final)

    link = open_page(dora, f"{PAGE}lines/{line.pk}/").context_data["left"]["link"]
    form = open_page(dora, link).content.decode()

    assert link == f"{PAGE}{final.pk}/change/?credit={line.pk}#credit"
    (row,) = re.findall(rf'name="line-{line.pk}"\s+value="([^"]*)"', form.split("Open dispute")[-1])
    assert row == "2.00"
    assert form.count('value="2.00"') == 1


def test_who_may_not_credit_is_shown_who_may(office: Office, final: Invoice) -> None:
    page = open_page(office.cast.ann, f"{PAGE}lines/{line_of(final).pk}/").content.decode()

    assert "Credit this line" not in page
    assert "2.00 EUR is left of the line. It may be credited by a finance admin." in page


def test_a_role_of_one_organization_opens_neither_page(office: Office, final: Invoice) -> None:
    client = Client()
    client.force_login(office.cast.alice)

    for path in ("", "2026-10-01/"):
        assert client.get(f"{PAGE}lines/{line_of(final).pk}/{path}").status_code == 403


def late_november() -> Invoice:
    """Return a final November with late use of October: 20 minutes after 1,000 seconds."""
    ledger = make_ledger(bound_hours=3)
    window = sealed_window(ledger.cluster, [Use(ledger.llm, 1000)])
    seal_rest_of_month(ledger.cluster, hours=3)
    accrue_everything()
    finalize(draft(ledger.organization, "2026-10"))
    accrue_late(correct(window, ledger.llm, 1200))
    november = draft(ledger.organization, "2026-11", at=NOVEMBER_OVER)
    return finalize(november, at=NOVEMBER_OVER)


@pytest.mark.django_db
def test_a_line_about_an_earlier_month_shows_the_whole_of_it_and_what_was_billed() -> None:
    november = late_november()
    root = User.objects.create_superuser("root")
    grant(root, Role.FINANCE_ADMIN)
    line = november.lines.get()

    opened = open_page(root, f"{PAGE}lines/{line.pk}/").context_data

    assert opened["steps"].steps == (
        ("Unit-hours", "0.3333"),
        ("Price of a unit-hour", "2.00 EUR"),
        ("Unit-hours of the whole month", "0.611111"),
        ("Cost of the whole month", "1.22 EUR"),
        ("Unit-hours billed before", "0.277778"),
        ("Cost of these", "0.56 EUR"),
        ("Amount of the line", "0.66 EUR"),
    )
    assert [(day["hours"], day["cost"]) for day in opened["days"]] == [("0.3333", "0.67 EUR")]
    assert opened["month"] == "2026-10"


def many_owners(office: Office, count: int) -> InvoiceLine:
    """Return the line of a draft to which so many charges of an hour have come since."""
    line = line_of(draft(office.cast.acme, "2026-10"))
    charge = Charge.objects.get(project=office.cast.llm)
    for number in range(count):
        charge.pk, charge.owner = None, f"owner-{number}"
        charge.save(force_insert=True)
    return line


def test_pages_of_many_charges_are_paged_and_ask_no_more_for_more(office: Office) -> None:
    User.objects.filter(username="dora").update(is_staff=True)
    client = Client()
    client.force_login(office.cast.dora)
    line = many_owners(office, 60)
    paths = (f"{PAGE}lines/{line.pk}/", f"{PAGE}lines/{line.pk}/2026-10-01/")
    client.get(paths[0])

    counts = []
    for path in paths:
        with CaptureQueriesContext(connection) as statements:
            answer: Any = client.get(path)
        counts.append(len(statements))

    assert max(counts) <= STATEMENTS_MAX, counts
    assert len(answer.context_data["charges"]) == 50
    assert "charges of 60.0000 unit-hours have come" in client.get(paths[0]).content.decode()
    last: Any = client.get(f"{paths[1]}?page=2")
    assert len(last.context_data["charges"]) == 11
    assert len(answer.content) <= BYTES_MAX


@pytest.mark.django_db
def test_a_price_that_changed_within_the_month_names_the_days_of_each() -> None:
    cast = make_cast()
    User.objects.update(is_staff=True)
    ledger = make_ledger("globex", bound_hours=96)
    third = MONTH_START + 48 * HOUR
    Price.objects.update(valid=DateTimeTZRange(MONTH_START, third))
    make_price(ledger.book, "3.00", begin_at=third)
    for number in (0, 24, 72):
        sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + number * HOUR)
    seal_rest_of_month(ledger.cluster, hours=96)
    accrue_everything()
    first, second = draft(ledger.organization, "2026-10").lines.order_by("unit_price")

    page = open_page(cast.dora, f"{PAGE}lines/{first.pk}/")
    answer = api_client(cast.dora).get(f"/api/v1/invoice-lines/{second.pk}/prices/")

    prices = page.context_data["prices"]
    assert [(one["price"], str(one["first"]), str(one["last"])) for one in prices] == [
        ("2.00 EUR", "2026-10-01", "2026-10-02"),
        ("3.00 EUR", "2026-10-04", "2026-10-04"),
    ]
    assert [one["is_own"] for one in prices] == [True, False]
    assert "2.00 EUR from 1 Oct 2026 to 2 Oct 2026, 2.0000 unit-hours" in page.content.decode()
    assert answer.json() == [
        {
            "unit_price": "2.0000000000",
            "first_day": "2026-10-01",
            "last_day": "2026-10-02",
            "unit_seconds": 7200,
        },
        {
            "unit_price": "3.0000000000",
            "first_day": "2026-10-04",
            "last_day": "2026-10-04",
            "unit_seconds": 3600,
        },
    ]
