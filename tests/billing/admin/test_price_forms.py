"""Customer classes, their books and prices of a cluster are made in the admin."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from billing.models import (
    CustomerClass,
    CustomerClassMembership,
    MinimumCharge,
    Price,
    PriceBookAssignment,
)
from tests.support.billing.office import Office
from tests.support.builders import make_cluster


@pytest.fixture(autouse=True)
def staff(office: Office) -> None:  # noqa: ARG001 - The people must be there.
    User.objects.update(is_staff=True)


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_classes_and_their_books_are_made_through_services(office: Office) -> None:
    client = enter(office.cast.dora)
    begin = {"valid_from_0": "2027-01-01", "valid_from_1": "00:00:00"}
    admin = "/admin/billing"

    client.post(f"{admin}/customerclass/add/", {"slug": "hospital", "name": "Hospital"})
    hospital = CustomerClass.objects.get(slug="hospital")
    of_class = {"customer_class": str(hospital.pk), **begin}
    client.post(
        f"{admin}/customerclassmembership/add/",
        {"organization": str(office.cast.acme.pk), **of_class},
    )
    book = {"price_book": str(office.book.pk)}
    client.post(f"{admin}/pricebookassignment/add/", {**of_class, **book})
    client.post(f"{admin}/pricebookassignment/add/", {"is_default": "on", **book, **begin})
    refused = client.post(f"{admin}/pricebookassignment/add/", {**book, **begin})

    rows = PriceBookAssignment.objects.filter(organization__isnull=True)
    assert {row.owner for row in rows} == {"Hospital", "all organizations"}
    assert CustomerClassMembership.objects.get().customer_class == hospital
    assert "Not exactly one of" in refused.content.decode()
    page = client.get(f"{admin}/pricebookassignment/").content.decode()
    assert "all organizations" in page


def test_a_price_for_a_cluster_is_set_and_listed(office: Office) -> None:
    client = enter(office.cast.dora)
    cluster = make_cluster("hopper-2")

    client.post(
        "/admin/billing/price/add/",
        {
            "price_book": str(office.book.pk),
            "size": "large",
            "price_group": "*",
            "cluster": str(cluster.pk),
            "unit_price": "7.5",
            "valid_from_0": "2027-01-01",
            "valid_from_1": "00:00:00",
        },
    )

    assert Price.objects.get(size="large").cluster == cluster
    assert "Hopper-2" in client.get("/admin/billing/price/?size=large").content.decode()


def test_a_price_is_set_through_the_service(office: Office) -> None:
    client = enter(office.cast.dora)
    body = {
        "price_book": str(office.book.pk),
        "size": "large",
        "price_group": "*",
        "unit_price": "7.50",
        "valid_from_0": "2026-10-01",
        "valid_from_1": "00:00:00",
    }

    made = client.post("/admin/billing/price/add/", body)
    again = client.post("/admin/billing/price/add/", body)

    assert made.status_code == 302
    assert f"{Price.objects.get(size='large').unit_price:.2f}" == "7.50"
    assert again.status_code == 200
    assert "begins at that hour or later" in again.content.decode()
    assert Price.objects.filter(size="large").count() == 1


@pytest.mark.parametrize(
    ("page", "help_text"),
    [
        ("price", "As in the book's price calendar, such as night."),
        ("pricecalendar", "The last year of the public holidays; the calendar ends with it."),
        ("minimumcharge", "Such as 2027-11. Empty: until further notice."),
        ("tierschedule", "The first month of a fiscal year, 1 to 12."),
    ],
)
def test_a_form_says_what_its_fields_take(office: Office, page: str, help_text: str) -> None:
    shown = enter(office.cast.dora).get(f"/admin/billing/{page}/add/").content.decode()

    assert help_text in shown


def test_a_wrong_month_is_refused_beside_its_field(office: Office) -> None:
    typed = {"organization": str(office.cast.acme.pk), "amount": "10", "first_month": "Dec 202"}

    page = enter(office.cast.dora).post("/admin/billing/minimumcharge/add/", typed)

    assert page.context["adminform"].form.errors == {
        "first_month": [
            'The label does not name a month. Name the month as year and month, such as "2026-10".'
        ]
    }
    assert not MinimumCharge.objects.exists()
