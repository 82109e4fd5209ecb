"""Disputes over REST: a customer opens and follows its own, finance decides them."""

from typing import Any

from rest_framework.test import APIClient

from billing.models import Dispute, Invoice
from tests.support.billing.late import finalize
from tests.support.billing.office import Office
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client, problem

URL = "/api/v1/disputes/"


@shared_rows
def final(draft: Invoice) -> Invoice:
    return finalize(draft)


def post(client: APIClient, path: str, body: dict[str, Any]) -> Any:  # noqa: ANN401 - An answer.
    key = f"key-{Dispute.objects.count()}-{path}"[:60]
    return client.post(f"{URL}{path}", body, format="json", headers={"Idempotency-Key": key})


def test_a_customer_disputes_a_line_and_finance_accepts_part_of_it(
    office: Office, final: Invoice
) -> None:
    alice, dora = api_client(office.cast.alice), api_client(office.cast.dora)
    line = str(final.lines.get(project__slug="llm").pk)
    lines = [{"line": line, "amount": "1.50"}]

    opened = post(alice, "", {"document": str(final.pk), "reason": "Not ours.", "lines": lines})
    assert opened.status_code == 201
    made = opened.json()
    assert made["lines"] == [{"line": line, "amount": {"amount": "1.50", "currency": "EUR"}}]
    invoice = alice.get(f"/api/v1/invoices/{final.pk}/").json()
    assert invoice["payment_status"] == "disputed"
    assert invoice["disputed_amount"] == {"amount": "1.50", "currency": "EUR"}
    listed = alice.get("/api/v1/invoices/?payment_status=disputed").json()["results"]
    assert [one["id"] for one in listed] == [str(final.pk)]

    post(dora, f"{made['id']}/messages/", {"text": "Which pods?"})
    forbidden = post(alice, f"{made['id']}/accept/", {"reason": "Yes."})
    assert problem(forbidden) == (403, "forbidden")
    lines[0]["amount"] = "1.00"
    accepted = post(dora, f"{made['id']}/accept/", {"reason": "Broken.", "lines": lines})

    seen = alice.get(f"{URL}{made['id']}/").json()
    assert accepted.status_code == 200
    assert (seen["state"], [one["text"] for one in seen["messages"]]) == (
        "accepted",
        ["Which pods?"],
    )
    note = Invoice.objects.get(pk=seen["credit_note"])
    assert (note.state, f"{note.total:.2f}") == ("draft", "-1.00")


def test_a_tenant_neither_sees_nor_opens_disputes_of_another(
    office: Office, final: Invoice
) -> None:
    body = {"document": str(final.pk), "reason": "Not ours."}
    mallory = api_client(office.cast.mallory)
    made = post(api_client(office.cast.alice), "", body).json()

    assert problem(post(mallory, "", body)) == (404, "not_found")
    assert problem(mallory.get(f"{URL}{made['id']}/")) == (404, "not_found")
    assert problem(post(mallory, f"{made['id']}/withdraw/", {"reason": "x"})) == (404, "not_found")
    assert mallory.get(URL).json()["results"] == []


def test_what_is_refused_names_field_and_remedy(office: Office, final: Invoice) -> None:
    alice = api_client(office.cast.alice)
    line = str(final.lines.get(project__slug="llm").pk)
    body = {"document": str(final.pk), "reason": "x", "lines": [{"line": line, "amount": "9.00"}]}

    above = post(alice, "", body)
    assert problem(above) == (409, "credit_too_large")
    post(alice, "", {"document": str(final.pk), "reason": "x"})
    again = alice.post(URL, {"document": str(final.pk), "reason": "x"}, format="json")
    assert problem(again) == (409, "invoice_not_disputable")
    assert Dispute.objects.count() == 1


def test_a_line_that_is_named_twice_is_refused_and_nothing_drafted(
    office: Office, final: Invoice
) -> None:
    dora = api_client(office.cast.dora)
    line = {"line": str(final.lines.get(project__slug="llm").pk), "amount": "0.50"}
    body = {"reason": "x", "lines": [line, line]}

    answers = [
        post(dora, "", {**body, "document": str(final.pk)}),
        *(
            dora.post(
                f"/api/v1/invoices/{final.pk}/{step}/",
                body,
                format="json",
                headers={"Idempotency-Key": step},
            )
            for step in ("credit", "debit")
        ),
    ]

    assert [problem(answer) for answer in answers] == [(422, "credit_invalid")] * 3
    assert [answer.json()["field"] for answer in answers] == ["lines"] * 3
    assert not Dispute.objects.exists()
    assert Invoice.objects.get() == final
