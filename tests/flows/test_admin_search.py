"""The search of the admin finds what people type: names, numbers of documents, pods."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from billing.models import Invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.models import Cluster
from tests.support.billing.ledger import DORA, ERIC
from tests.support.billing.office import make_office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.metering.alike import allocated

pytestmark = pytest.mark.django_db


@pytest.fixture
def client() -> Client:
    office = make_office()
    User.objects.exclude(username="carol").update(is_staff=True)
    drafted = draft_invoice(period_id=office.period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    finalize_invoice(invoice_id=drafted.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
    allocated(Cluster.objects.earliest("pk"), "7f3c-uid", "large")
    return signed_in("dora")


def signed_in(name: str) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client


def found(client: Client, text: str) -> list[tuple[str, str]]:
    """Return name and kind of what a text finds."""
    page = client.get("/admin/search/", {"s": text}).content.decode()
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "|", page)).split("|")
    texts = [word.strip() for word in words if word.strip() and word.strip() != "/"]
    return list(zip(texts[::2], texts[1::2], strict=True))


def test_what_people_type_is_found(client: Client) -> None:
    invoice = Invoice.objects.get()

    assert ("Acme", "organization") in found(client, "acm")
    assert ("LLM", "project") in found(client, "llm")
    assert ("carol", "person") in found(client, "carol@")
    assert found(client, invoice.reference.lower()) == [(invoice.reference, "invoice")]
    assert found(client, "7f3c-uid") == [("stray/7f3c-uid: 1 x nvidia.com/gpu", "pod")]
    assert found(client, "no such thing") == []
    assert client.get("/admin/search/", {"s": " "}).content == b""


def test_pages_are_found_by_their_names_after_rows(client: Client) -> None:
    assert ("Tax rates", "Billing") in found(client, "tax rate")


def test_a_text_costs_a_bounded_number_of_statements(client: Client) -> None:
    found(client, "acme")
    with CaptureQueriesContext(connection) as queries:
        found(client, "acme")

    assert len(queries) <= 12


@pytest.mark.usefixtures("client")
def test_tenants_search_nothing() -> None:
    assert signed_in("carol").get("/admin/search/", {"s": "acme"}).status_code == 302


def test_pods_are_found_by_how_their_names_begin_and_by_an_index(client: Client) -> None:
    assert found(client, "f3c-uid") == []
    with CaptureQueriesContext(connection) as queries:
        assert ("stray/7f3c-uid: 1 x nvidia.com/gpu", "pod") in found(client, "7F3C")
    (asked,) = [one["sql"] for one in queries if '"metering_podallocation"' in one["sql"]]
    with connection.cursor() as cursor:
        # Of a few rows any other way is as cheap: what is left is to look up both conditions.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_indexscan = off")
        cursor.execute(f"EXPLAIN {asked}")
        plan = " ".join(row[0] for row in cursor.fetchall())
    assert "allocation_by_name" in plan
    assert "allocation_by_uid" in plan
