"""Invoices over REST: draft, look, finalize, hand out."""

from decimal import Decimal
from typing import Any

import pytest
from rest_framework.test import APIClient

from billing.access import invoices_visible_to, lines_visible_to
from billing.domain.money import Money
from billing.models import Invoice
from billing.selectors.documents.invoices import project_parts
from billing.services.finalizing import finalize_invoice
from tenants.domain.actors import Actor
from tenants.domain.identity.roles import Role
from tenants.selectors.actors import actor_of_user
from tests.support.billing.ledger import ERIC
from tests.support.billing.office import Office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, grant, make_user
from tests.support.tenants.clients import api_client, problem

PATH = "/api/v1/invoices/"


def send(client: APIClient, path: str, body: Any = None, **headers: str) -> Any:  # noqa: ANN401
    given = {"Idempotency-Key": "k1", **{k.replace("_", "-"): v for k, v in headers.items()}}
    return client.post(path, body or {}, headers=given)


def test_a_month_is_drafted_looked_at_and_finalized(office: Office) -> None:
    eric = make_user("eric")
    grant(eric, Role.FINANCE_ADMIN)
    dora, other = api_client(office.cast.dora), api_client(eric)

    drafted = send(dora, PATH, {"period": str(office.period.pk)})
    place = drafted["Location"]
    final = send(other, f"{place}finalize/", If_Match=drafted["ETag"])

    assert (drafted.status_code, final.status_code) == (201, 200)
    assert drafted.json()["state"] == "draft"
    body = final.json()
    assert (body["state"], body["reference"]) == ("final", f"GL-{body['finalized_at'][:4]}-000001")
    assert body["total"] == {"amount": "3.00", "currency": "EUR"}
    assert [(line["unit_hours"], line["amount"]["amount"]) for line in body["lines"]] == [
        ("1.000000", "2.00"),
        ("0.500000", "1.00"),
    ]
    assert dora.get(place).json() == body
    charges = dora.get(f"/api/v1/charges/?invoice={body['id']}").json()["results"]
    assert {c["line"] for c in charges} == {line["id"] for line in body["lines"]}


def test_a_month_that_is_not_over_is_refused_with_its_reason(office: Office) -> None:
    period = office.cast.acme.billing_periods.get(label="2026-11")

    answer = send(api_client(office.cast.dora), PATH, {"period": str(period.pk)})

    assert problem(answer) == (409, "period_not_ready")
    assert [p["code"] for p in answer.json()["problems"]] == ["period_not_over"]
    assert not Invoice.objects.exists()


def test_who_drafted_is_refused_as_finalizer(office: Office) -> None:
    dora = api_client(office.cast.dora)
    drafted = send(dora, PATH, {"period": str(office.period.pk)})

    answer = send(
        dora, f"{drafted['Location']}finalize/", Idempotency_Key="k2", If_Match=drafted["ETag"]
    )

    assert problem(answer) == (403, "invoice_needs_four_eyes")
    assert Invoice.objects.get().state == "draft"


def test_a_draft_made_again_is_not_finalized_unseen(office: Office, draft: Invoice) -> None:
    answer = send(api_client(office.cast.dora), f"{PATH}{draft.pk}/finalize/", If_Match='"7"')

    assert problem(answer) == (412, "stale_version")
    assert Invoice.objects.get().state == "draft"


def test_a_draft_nobody_says_to_have_seen_is_not_finalized(office: Office, draft: Invoice) -> None:
    answer = send(api_client(office.cast.dora), f"{PATH}{draft.pk}/finalize/")

    assert problem(answer) == (428, "precondition_required")
    assert Invoice.objects.get().state == "draft"


@pytest.mark.parametrize(
    ("name", "status"),
    [("alice", 200), ("ann", 200), ("dora", 200), ("bob", 404), ("carol", 404), ("mallory", 404)],
)
@pytest.mark.parametrize("part", ["", "pdf/", "csv/"])
def test_an_invoice_is_read_by_its_organization_and_the_platform(
    office: Office, draft: Invoice, name: str, status: int, part: str
) -> None:
    answer = api_client(getattr(office.cast, name)).get(f"{PATH}{draft.pk}/{part}")

    assert answer.status_code == status


@pytest.mark.parametrize(
    ("name", "status"),
    [("alice", 403), ("ann", 403), ("frank", 403), ("bob", 404), ("mallory", 404)],
)
def test_nobody_else_writes_invoices(
    office: Office, draft: Invoice, name: str, status: int
) -> None:
    client = api_client(getattr(office.cast, name))

    final = send(client, f"{PATH}{draft.pk}/finalize/", If_Match='"1"')
    gone = client.delete(f"{PATH}{draft.pk}/", headers={"If-Match": '"1"'})

    assert (problem(final)[0], problem(gone)[0]) == (status, status)
    now = Invoice.objects.get()
    assert (now.state, now.version) == ("draft", 1)


def test_an_invoice_is_handed_out_as_pdf_and_csv(office: Office, draft: Invoice) -> None:
    client = api_client(office.cast.alice)

    pdf, csv = (client.get(f"{PATH}{draft.pk}/{kind}/") for kind in ("pdf", "csv"))

    assert (pdf["Content-Type"], pdf.content[:5]) == ("application/pdf", b"%PDF-")
    assert pdf["Content-Disposition"] == 'attachment; filename="draft-2026-10.pdf"'
    assert csv["Content-Type"] == "text/csv; charset=utf-8"
    assert csv.content.count(b"\r\n") == 3
    assert "no-store" in csv["Cache-Control"]


def test_a_draft_is_discarded_as_it_was_seen(office: Office, draft: Invoice) -> None:
    client = api_client(office.cast.dora)

    blind = client.delete(f"{PATH}{draft.pk}/")
    gone = client.delete(f"{PATH}{draft.pk}/", headers={"If-Match": '"1"'})

    assert problem(blind)[0] == 428
    assert gone.status_code == 204
    assert not Invoice.objects.exists()


def test_invoices_are_listed_without_lines_and_filtered(office: Office, draft: Invoice) -> None:
    client = api_client(office.cast.ann)

    found = client.get(f"{PATH}?state=draft&period_label=2026-10").json()["results"]

    assert [row["id"] for row in found] == [str(draft.pk)]
    assert "lines" not in found[0]
    assert client.get(f"{PATH}?state=final").json()["results"] == []
    assert api_client(office.cast.mallory).get(PATH).json()["results"] == []


def test_a_lead_reads_the_part_of_the_own_project_and_nothing_else_of_an_invoice(
    office: Office, draft: Invoice
) -> None:
    cast = office.cast
    bob, carol = api_client(cast.bob), api_client(cast.carol)
    lines = f"{PATH}{draft.pk}/lines/"
    own, others = f"{lines}?project={cast.llm.pk}", f"{lines}?project={cast.vision.pk}"
    assert problem(bob.get(own)) == (404, "not_found")
    finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)

    (line,) = bob.get(own).json()["results"]

    assert (line["project"], line["amount"]["amount"]) == (str(cast.llm.pk), "2.00")
    assert bob.get(f"/api/v1/invoice-lines/{line['id']}/").json() == line
    for client, path in ((bob, lines), (bob, others), (bob, f"{PATH}{draft.pk}/"), (carol, own)):
        assert problem(client.get(path)) == (404, "not_found")
    foreign = draft.lines.get(project=cast.vision)
    assert problem(bob.get(f"/api/v1/invoice-lines/{foreign.pk}/")) == (404, "not_found")
    alice = api_client(cast.alice)
    assert [row["amount"]["amount"] for row in alice.get(others).json()["results"]] == ["1.00"]
    assert alice.get(f"{lines}?project={cast.virus.pk}").json()["results"] == []
    assert problem(api_client(cast.mallory).get(own)) == (404, "not_found")
    assert problem(bob.get(f"{lines}?projekt={cast.llm.pk}"))[0] == 422


def test_a_lead_lists_the_parts_of_its_projects_over_rest(office: Office, draft: Invoice) -> None:
    cast = office.cast
    path = "/api/v1/invoice-parts/"
    assert api_client(cast.bob).get(path).json()["results"] == []
    invoice = finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)

    (part,) = api_client(cast.bob).get(path).json()["results"]
    both = api_client(cast.alice).get(f"{path}?invoice={invoice.pk}&page_size=1").json()
    rest = api_client(cast.alice).get(both["next"]).json()

    assert part.pop("finalized_at")
    assert part == {
        "invoice": str(invoice.pk),
        "reference": invoice.reference,
        "kind": "invoice",
        "period_label": "2026-10",
        "organization": str(cast.acme.pk),
        "project": str(cast.llm.pk),
        "lines": 1,
        "amount": {"amount": "2.00", "currency": "EUR"},
    }
    amounts = [one["amount"]["amount"] for one in (*both["results"], *rest["results"])]
    assert (sorted(amounts), rest["next"]) == (["1.00", "2.00"], None)
    for name in ("carol", "mallory"):
        assert api_client(getattr(cast, name)).get(path).json()["results"] == []
    assert problem(api_client(cast.bob).get(f"{path}?projekt={cast.llm.pk}"))[0] == 422


def test_parts_add_up_the_lines_that_an_actor_reads(office: Office, draft: Invoice) -> None:
    finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
    bob, alice = actor_of_user(office.cast.bob), actor_of_user(office.cast.alice)

    def sums(actor: Actor, limit: int = 9) -> list[tuple[str, int, Money]]:
        parts = project_parts(lines_visible_to(actor), limit=limit)
        return [(part.project, part.lines, part.amount) for part in parts]

    assert sums(bob) == [("LLM", 1, Money(Decimal(2), "EUR"))]
    assert sums(alice) == [
        ("LLM", 1, Money(Decimal(2), "EUR")),
        ("VISION", 1, Money(Decimal(1), "EUR")),
    ]
    assert sums(alice, limit=1) == [("LLM", 1, Money(Decimal(2), "EUR"))]
    assert not invoices_visible_to(bob).exists()
