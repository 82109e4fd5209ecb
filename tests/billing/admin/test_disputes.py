"""Disputes on the invoice's page: opened, discussed and decided by buttons, and listed."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from billing.models import Dispute, Invoice
from billing.services.disputes import open_dispute
from tests.support.billing.late import finalize
from tests.support.billing.ledger import DORA
from tests.support.billing.office import Office
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

LIST = "/admin/billing/dispute/"


@pytest.fixture(autouse=True)
def staff(office: Office) -> None:  # noqa: ARG001 - The people must be there.
    User.objects.update(is_staff=True)


@shared_rows
def final(draft: Invoice) -> Invoice:
    return finalize(draft)


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, invoice: Invoice) -> str:
    return client.get(f"/admin/billing/invoice/{invoice.pk}/change/").content.decode()


def press(client: Client, address: str, **body: str) -> str:
    return client.post(f"{LIST}{address}/", body, follow=True).content.decode()


def test_a_dispute_is_opened_discussed_and_accepted_in_part_by_buttons(
    office: Office, final: Invoice
) -> None:
    client, line = enter(office.cast.dora), final.lines.get(project__slug="vision")

    assert "Dispute this document for the customer" in page(client, final)
    press(client, f"{final.pk}/open", reason="Not ours.", **{f"line-{line.pk}": "0.40"})
    opened = Dispute.objects.get()
    shown = page(client, final)
    assert "Dispute of 0.40 EUR: open" in shown
    assert "Payment: <strong>disputed</strong>" in shown
    assert "Dispute this document for the customer" not in shown
    assert "Which pods?" in press(client, f"{opened.pk}/reply", text="Which pods?")
    refused = press(client, f"{opened.pk}/accept", text="Broken.", **{f"line-{line.pk}": "0.41"})
    assert "More is accepted than is disputed." in refused
    press(client, f"{opened.pk}/accept", text="Broken.", **{f"line-{line.pk}": "0.30"})

    opened.refresh_from_db()
    assert opened.credit_note is not None
    assert (opened.state, f"{opened.credit_note.total:.2f}") == ("accepted", "-0.30")
    assert f"/admin/billing/invoice/{opened.credit_note.pk}/change/" in page(client, final)


@pytest.mark.parametrize("step", ["reject", "withdraw"])
def test_a_dispute_is_ended_with_a_reason(office: Office, final: Invoice, step: str) -> None:
    opened = open_dispute(document_id=final.pk, amounts={}, reason="No.", actor=DORA, at=AT)
    client = enter(office.cast.dora)

    assert "The decision has no reason." in press(client, f"{opened.pk}/{step}", text=" ")
    press(client, f"{opened.pk}/{step}", text="Metered twice.")

    assert "Metered twice." in page(client, final)
    opened.refresh_from_db()
    assert opened.state == {"reject": "rejected", "withdraw": "withdrawn"}[step]


def test_an_auditor_sees_the_thread_and_who_decides(office: Office, final: Invoice) -> None:
    opened = open_dispute(document_id=final.pk, amounts={}, reason="No.", actor=DORA, at=AT)
    client = enter(office.cast.ann)

    shown = page(client, final)

    assert "It is decided by a finance admin." in shown
    assert f"{LIST}{opened.pk}/reply/" not in shown
    assert client.post(f"{LIST}{opened.pk}/accept/").status_code == 403
    assert client.post(f"{LIST}{final.pk}/open/").status_code == 403
    assert client.get(f"{LIST}{opened.pk}/accept/").status_code == 405
    listed = client.get(LIST).content.decode()
    assert f"/admin/billing/invoice/{final.pk}/change/#beside" in listed
