"""Invoices on the tenant pages: whole for the organization, and parts for leads of projects."""

from typing import Any

from tenants.domain.identity.roles import Role
from tests.config.app.conftest import Tenancy, browser_of
from tests.config.app.test_pages import html_of, text_of
from tests.support.builders import grant

LIST = "/app/invoices/"


def test_an_administrator_reads_the_whole_document(tenancy: Tenancy) -> None:
    alice = browser_of(tenancy.cast.alice)
    listed = text_of(alice.get(LIST))

    page = text_of(alice.get(f"{LIST}{tenancy.invoice.pk}/"))

    reference = tenancy.invoice.reference
    assert f"|{reference}|Invoice|2026-10|Acme|3.00 EUR|3.00 EUR|" in listed
    assert f"|Invoice {reference}|" in page
    assert "|LLM|Small unit, H100 1g.10gb|1.0000|2.00|2.00|" in page
    assert "|VISION|Small unit, H100 1g.10gb|0.5000|2.00|1.00|" in page
    assert "|Total, net of tax|3.00|" in page
    pdf: Any = alice.get(f"/api/v1/invoices/{tenancy.invoice.pk}/pdf/")
    assert "|PDF|CSV|" in page
    assert pdf.content.startswith(b"%PDF-")


def test_a_lead_reads_the_part_of_the_own_project_with_its_sum(tenancy: Tenancy) -> None:
    bob = browser_of(tenancy.cast.bob)

    listed: Any = bob.get(LIST)
    page: Any = bob.get(f"{LIST}{tenancy.invoice.pk}/")

    assert listed.context["documents"] == []
    assert [
        (part["project"], part["lines"], part["amount"]) for part in listed.context["parts"]
    ] == [("LLM", 1, "2.00 EUR")]
    (part,) = page.context["parts"]
    assert (part["project"], part["amount"]) == ("LLM", "2.00 EUR")
    assert [row["amount"] for row in part["rows"]] == ["2.00 EUR"]
    text = html_of(page)
    for hidden in ("VISION", "1.00 EUR", "3.00", "pdf"):
        assert hidden not in text
    twin = bob.get(page.context["twin"]).json()["results"]
    assert [line["amount"] for line in twin] == [{"amount": "2.00", "currency": "EUR"}]


def test_an_administrator_who_leads_elsewhere_reads_both_kinds(tenancy: Tenancy) -> None:
    grant(tenancy.cast.mallory, Role.PROJECT_LEAD, project=tenancy.cast.vision)

    listed: Any = browser_of(tenancy.cast.mallory).get(LIST)

    (row,) = listed.context["parts"]
    assert (row["project"], row["amount"]) == ("VISION", "1.00 EUR")
    auditor: Any = browser_of(tenancy.cast.ann).get(LIST)
    assert (len(auditor.context["documents"]), auditor.context["parts"]) == (1, [])


def test_a_member_and_a_stranger_are_shown_no_invoice(tenancy: Tenancy) -> None:
    for person in (tenancy.cast.carol, tenancy.cast.mallory):
        client = browser_of(person)
        assert client.get(f"{LIST}{tenancy.invoice.pk}/").status_code == 404
        assert tenancy.invoice.reference not in text_of(client.get(LIST))
    assert "Invoices may be read by" in text_of(browser_of(tenancy.cast.carol).get(LIST))
