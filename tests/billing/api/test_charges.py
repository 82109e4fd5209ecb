"""Billing periods, charges and accrual exceptions over REST."""

import pytest
from pytest_django import DjangoAssertNumQueries

from billing.models import AccrualException, BillingPeriod, Charge
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tests.support.billing.ledger import DORA, ERIC, HOUR, Use, accrue_everything, sealed_window
from tests.support.billing.office import Office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END, make_cluster
from tests.support.tenants.clients import api_client, problem

PERIODS, CHARGES, EXCEPTIONS = (
    "/api/v1/billing-periods/",
    "/api/v1/charges/",
    "/api/v1/accrual-exceptions/",
)


def test_the_finance_admin_opens_a_month_once(office: Office) -> None:
    client = api_client(office.cast.dora)
    body = {"organization": str(office.cast.acme.pk), "label": "2026-12"}

    made = client.post(PERIODS, body, headers={"Idempotency-Key": "k1"})
    again = client.post(PERIODS, body, headers={"Idempotency-Key": "k2"})

    assert (made.status_code, again.status_code) == (201, 201)
    assert made.json() == again.json()
    assert made.json()["begin_at"] == "2026-12-01T00:00:00Z"
    assert BillingPeriod.objects.filter(label="2026-12").count() == 1


def test_a_wrong_label_names_its_field(office: Office) -> None:
    answer = api_client(office.cast.dora).post(
        PERIODS,
        {"organization": str(office.cast.acme.pk), "label": "12/2026"},
        headers={"Idempotency-Key": "k1"},
    )

    assert problem(answer) == (422, "period_label_invalid")


@pytest.mark.parametrize(("name", "seen"), [("ann", 4), ("dora", 4), ("alice", 0), ("bob", 0)])
def test_periods_are_seen_by_who_does_the_billing_or_audits(
    office: Office, name: str, seen: int
) -> None:
    client = api_client(getattr(office.cast, name))

    assert len(client.get(PERIODS).json()["results"]) == seen
    status = client.get(f"{PERIODS}{office.period.pk}/").status_code
    assert status == (200 if seen else 404)


def test_a_charge_has_what_it_costs_alone(office: Office) -> None:
    rows = api_client(office.cast.ann).get(CHARGES).json()["results"]

    assert {(row["unit_seconds"], row["cost"]["amount"]) for row in rows} == {
        (3600, "2.00"),
        (1800, "1.00"),
        (60, "0.03"),
    }


@pytest.mark.parametrize(
    ("name", "projects"),
    [
        ("ann", {"llm", "vision", "virus"}),
        ("alice", {"llm", "vision"}),
        ("bob", {"llm"}),
        ("carol", set()),
        ("mallory", {"virus"}),
    ],
)
def test_charges_are_seen_by_the_projects_one_reaches(
    office: Office, name: str, projects: set[str]
) -> None:
    answer = api_client(getattr(office.cast, name)).get(CHARGES)

    slugs = {str(p.pk): p.slug for p in (office.cast.llm, office.cast.vision, office.cast.virus)}
    assert {slugs[row["project"]] for row in answer.json()["results"]} == projects


def test_a_charge_shows_quantity_and_price_exactly(office: Office) -> None:
    charge = Charge.objects.get(project=office.cast.vision)

    row = api_client(office.cast.alice).get(f"{CHARGES}{charge.pk}/").json()

    assert (row["unit_seconds"], row["unit_hours"]) == (1800, "0.500000")
    assert row["unit_price"] == {"amount": "2.00", "currency": "EUR"}
    assert row["list_unit_price"] == row["unit_price"]
    assert (row["window_start"], row["line"]) == ("2026-10-01T00:00:00Z", None)


@pytest.mark.parametrize(
    ("filter_", "found"),
    [
        ("is_billed=false", 3),
        ("is_billed=true", 0),
        ("owner=carol&size=small", 3),
        ("owner=nobody", 0),
        ("hour_from=2026-10-01T01:00:00Z", 0),
        ("hour_before=2026-10-01T01:00:00Z", 3),
        ("price_group=H100/1g.10gb", 3),
        ("day=2026-10-01", 3),
        ("day=0001-01-01", 0),
        ("day=9999-12-31", 0),
    ],
)
def test_charges_are_filtered(office: Office, filter_: str, found: int) -> None:
    assert len(api_client(office.cast.ann).get(f"{CHARGES}?{filter_}").json()["results"]) == found


def test_unpriced_use_is_reported_with_its_remedy(office: Office) -> None:
    sealed_window(
        make_cluster("other"), [Use(office.cast.llm, 60, size="large")], start_at=MONTH_END + HOUR
    )
    accrue_everything()
    found = AccrualException.objects.get()

    row = api_client(office.cast.bob).get(f"{EXCEPTIONS}?is_open=true").json()["results"][0]

    assert (row["id"], row["code"], row["unit_seconds"]) == (found.pk, "no_price", 60)
    assert row["remedy"].startswith("Set a price")
    assert api_client(office.cast.ann).get(f"{EXCEPTIONS}{found.pk}/").status_code == 200
    assert problem(api_client(office.cast.mallory).get(f"{EXCEPTIONS}{found.pk}/"))[0] == 404


def test_what_use_lacks_is_listed_once_for_each_remedy(office: Office) -> None:
    large = Use(office.cast.llm, 60, size="large")
    other = make_cluster("other")
    for hours in (1, 2):
        sealed_window(other, [large], start_at=MONTH_END + hours * HOUR)
    accrue_everything()
    path = f"{EXCEPTIONS}remedies/"

    (remedy,) = api_client(office.cast.bob).get(path).json()["results"]

    assert remedy == {
        "code": "no_price",
        "price_book": str(office.book.pk),
        "price_book_name": office.book.name,
        "organization": None,
        "size": "large",
        "price_group": large.price_group,
        "exceptions": 2,
        "hours": 2,
        "unit_seconds": 120,
        "first_start": "2026-11-01T01:00:00Z",
        "last_start": "2026-11-01T02:00:00Z",
        "organizations": 1,
        "organization_names": ["Acme"],
    }
    vision = f"{path}?project={office.cast.vision.pk}"
    assert api_client(office.cast.ann).get(vision).json() == {"results": []}
    assert api_client(office.cast.mallory).get(path).json() == {"results": []}


def test_the_number_of_statements_of_a_list_is_constant(
    office: Office, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client = api_client(office.cast.ann)
    client.get(CHARGES)

    for size in (1, 3):
        with django_assert_num_queries(3):
            client.get(f"{CHARGES}?page_size={size}")


def test_charges_are_filtered_by_the_line_and_the_invoice_they_belong_to(office: Office) -> None:
    made = draft_invoice(period_id=office.period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    finance = api_client(office.cast.ann)
    line = made.lines.get(project=office.cast.vision)
    assert finance.get(f"{CHARGES}?line={line.pk}").json()["results"] == []
    finalize_invoice(invoice_id=made.pk, actor=ERIC, at=AT, terms=SITE_TERMS)

    (row,) = finance.get(f"{CHARGES}?line={line.pk}").json()["results"]

    assert (row["unit_seconds"], row["line"]) == (1800, str(line.pk))
    assert len(finance.get(f"{CHARGES}?invoice={made.pk}").json()["results"]) == 2
    assert len(finance.get(f"{CHARGES}?is_billed=true").json()["results"]) == 2
    assert finance.get(f"{CHARGES}{row['id']}/").json()["line"] == str(line.pk)
