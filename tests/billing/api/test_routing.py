"""Issuers, recipients and routes over REST and in the admin, and the documents they make."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from billing.adapters.documents import render_csv, render_pdf
from billing.models import Invoice, Issuer, ProjectRoute, Recipient
from billing.services.closing import review_period
from tenants.domain.identity.roles import Role
from tests.support.billing.ledger import DORA
from tests.support.billing.office import Office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, grant, make_user
from tests.support.tenants.clients import api_client, problem

ISSUERS = "/api/v1/issuers/"
RECIPIENTS = "/api/v1/recipients/"
ROUTES = "/api/v1/project-routes/"
LABS = {"slug": "labs", "name": "Labs Ltd", "series": "LB", "credit_series": "LB-CN"}


def post(client: APIClient, path: str, body: dict[str, Any], key: str = "k1") -> Any:  # noqa: ANN401
    return client.post(path, body, headers={"Idempotency-Key": key})


def reviewer() -> User:
    user = make_user("rita", is_staff=True)
    grant(user, Role.FINANCE_ADMIN)
    return user


def route_vision(office: Office, client: APIClient) -> None:
    issuer = post(client, ISSUERS, LABS | {"bank_account": "DE89"}).json()
    recipient = {
        "organization": str(office.cast.acme.pk),
        "slug": "physics",
        "name": "Physics",
        "buyer_reference": "PH-7",
    }
    made = post(client, RECIPIENTS, recipient, key="k2").json()
    route = {
        "project": str(office.cast.vision.pk),
        "issuer": issuer["id"],
        "recipient": made["id"],
        "purchase_order": "PO-1",
    }
    assert post(client, ROUTES, route, key="k3").status_code == 201


def test_finance_routes_a_project_and_drafts_two_documents(office: Office) -> None:
    dora = api_client(office.cast.dora)
    route_vision(office, dora)

    first = post(dora, "/api/v1/invoices/", {"period": str(office.period.pk)}, key="k4").json()

    listed = dora.get(f"/api/v1/invoices/?period={office.period.pk}").json()["results"]
    assert {row["purchase_order"]: row["total"]["amount"] for row in listed} == {
        "": "2.00",
        "PO-1": "1.00",
    }
    assert (first["issuer"], first["recipient"], first["purchase_order"]) == (None, None, "")
    found = dora.get("/api/v1/invoices/?purchase_order=PO-1").json()["results"]
    assert [row["recipient"] for row in found] == [str(Recipient.objects.get().pk)]


def test_pdf_and_csv_print_order_and_reference(office: Office) -> None:
    dora = api_client(office.cast.dora)
    route_vision(office, dora)
    post(dora, "/api/v1/invoices/", {"period": str(office.period.pk)}, key="k4")

    document = Invoice.objects.get(purchase_order="PO-1").document

    header, line = render_csv(document).decode().splitlines()
    assert header.endswith('"purchase_order","buyer_reference"')
    assert line.endswith('"PO-1","PH-7"')
    assert render_pdf(document) != render_pdf({**document, "purchase_order": "PO-2"})


def test_an_issuer_is_changed_at_the_version_that_was_seen(office: Office) -> None:
    dora = api_client(office.cast.dora)
    made = post(dora, ISSUERS, LABS)
    url = f"{ISSUERS}{made.json()['id']}/"
    etag = {"If-Match": dora.get(url)["ETag"]}

    changed = dora.patch(url, {"name": "Labs GmbH"}, headers=etag)
    again = dora.patch(url, {"name": "Labs AG"}, headers=etag)

    assert (changed.status_code, again.status_code) == (200, 412)
    assert problem(post(dora, ISSUERS, LABS, key="k2")) == (409, "issuer_exists")
    assert Issuer.objects.get().name == "Labs GmbH"


def test_a_recipient_of_another_organization_is_refused(office: Office) -> None:
    dora = api_client(office.cast.dora)
    theirs = {"organization": str(office.cast.umbrella.pk), "slug": "theirs", "name": "Theirs"}
    recipient = post(dora, RECIPIENTS, theirs).json()["id"]

    answer = post(
        dora, ROUTES, {"project": str(office.cast.vision.pk), "recipient": recipient}, key="k2"
    )

    assert problem(answer) == (422, "route_invalid")
    assert not ProjectRoute.objects.exists()


@pytest.fixture
def client(office: Office) -> Client:
    User.objects.update(is_staff=True)
    client = Client()
    client.force_login(office.cast.dora)
    return client


def test_issuer_recipient_and_route_are_made_and_changed_in_the_admin(
    office: Office, client: Client
) -> None:
    client.post("/admin/billing/issuer/add/", {**LABS, "first_number": 5})
    payer = {"organization": str(office.cast.acme.pk)}
    client.post("/admin/billing/recipient/add/", {**payer, "slug": "physics", "name": "Physics"})
    issuer, recipient = Issuer.objects.get(), Recipient.objects.get()
    form = {"issuer": str(issuer.pk), "recipient": str(recipient.pk), "purchase_order": "PO-1"}

    client.post("/admin/billing/projectroute/add/", {"project": str(office.cast.vision.pk), **form})
    route = ProjectRoute.objects.get()
    client.post(
        f"/admin/billing/projectroute/{route.pk}/change/", {**form, "purchase_order": "PO-2"}
    )
    client.post(f"/admin/billing/recipient/{recipient.pk}/change/", {"name": "Chemistry"})

    route.refresh_from_db()
    recipient.refresh_from_db()
    assert (route.issuer, route.recipient, route.purchase_order) == (issuer, recipient, "PO-2")
    assert recipient.name == "Chemistry"
    assert (issuer.first_number, route.version) == (5, 2)


def test_the_month_close_page_sums_the_documents_of_an_organization(
    office: Office, client: Client
) -> None:
    route_vision(office, api_client(office.cast.dora))
    review_period(period_id=office.period.pk, actor=DORA, at=AT, terms=SITE_TERMS)

    page = client.get("/admin/billing/billingperiod/close/?month=2026-10").content.decode()

    assert "and 1 more" in " ".join(page.split())
    assert "3.00 EUR" in page
    frank = Client()
    frank.force_login(reviewer())
    asked = frank.get("/admin/billing/billingperiod/close/?month=2026-10").content.decode()
    assert "Finalize 2 invoices" in " ".join(asked.split())
    invoice = Invoice.objects.get(purchase_order="PO-1")
    shown = client.get(f"/admin/billing/invoice/{invoice.pk}/change/").content.decode()
    assert "Becomes final together with" in shown
