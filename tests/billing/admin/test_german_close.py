"""Closing a month, correcting an invoice and collecting its money on German pages."""

import re
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from billing.models import BillingPeriod, Dispute, Invoice, Payment, WriteOff
from billing.services.closing import review_period
from tenants.domain.identity.roles import Role
from tenants.models import AuditEntry
from tests.support.billing.late import finalize
from tests.support.billing.ledger import DORA
from tests.support.billing.office import Office
from tests.support.billing.payments import csv_text, settled
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, grant, make_user
from tests.support.german import GERMAN, english_in, text_of
from tests.support.shared_rows import shared_rows

CLOSE = "/admin/billing/billingperiod/close/?month=2026-10"
MONTHS = "/admin/billing/journalentry/months/"
PAYMENTS = "/admin/billing/payment/"
INVOICES = "/admin/billing/invoice/"


@pytest.fixture(autouse=True)
def staff(office: Office) -> None:  # noqa: ARG001 - The people must be there.
    User.objects.update(is_staff=True)


@pytest.fixture
def dora(office: Office) -> Client:
    return german(office.cast.dora)


@pytest.fixture
def eric(office: Office) -> Client:  # noqa: ARG001 - The people must be there.
    user = make_user("eric", is_staff=True)
    grant(user, Role.FINANCE_ADMIN)
    return german(user)


@shared_rows
def final(draft: Invoice) -> Invoice:
    return finalize(draft)


def german(user: User) -> Client:
    client = Client()
    client.force_login(user)
    client.defaults |= GERMAN
    return client


def shown(client: Client, path: str, **form: str) -> str:
    """Return the text of a page, after a step if a form is given; no text of it is English."""
    answer = client.post(path, form, follow=True) if form else client.get(path)
    assert answer.status_code == 200
    text = text_of(answer)
    assert english_in(text) == []
    return text


def page_of(invoice: Invoice) -> str:
    return f"{INVOICES}{invoice.pk}/change/"


def test_a_month_is_reviewed_and_finalized(dora: Client, eric: Client) -> None:
    assert "2 bereit zur Prüfung" in shown(dora, CLOSE)
    sent = shown(dora, CLOSE, step="review", month="2026-10")
    assert "2 zur Prüfung gegeben." in sent
    assert "Sie haben 2 Monate zur Prüfung gegeben." in sent
    assert "Eine andere Person schreibt sie fest: ein Finanz-Administrator." in sent

    asked = eric.post(CLOSE, {"step": "finalize", "month": "2026-10"}).content.decode()
    seen = re.findall(r'name="seen" value="([^"]*)"', asked)[0]
    text = " ".join(unescape(re.sub("<[^>]*>", " ", asked)).split())
    assert "2 Rechnungen bekommen ihre Nummern und werden festgeschrieben. 3,03 EUR" in text
    assert "Das kann nicht rückgängig gemacht werden" in text
    form = {"step": "finalize", "month": "2026-10", "confirmed": "1", "seen": seen}
    done = shown(eric, CLOSE, **form)

    assert "2 festgeschrieben." in done
    assert "2 geschlossen" in done
    closed = BillingPeriod.objects.filter(label="2026-10").values_list("state", flat=True)
    assert set(closed) == {"closed"}


def test_a_refusal_beside_a_month_is_marked_as_english(office: Office, dora: Client) -> None:
    review_period(period_id=office.period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    draft = Invoice.objects.get()
    form = {
        "step": "finalize",
        "month": "2026-10",
        "confirmed": "1",
        "seen": f"{draft.pk}:{draft.version + 1}",
    }

    page = dora.post(CLOSE, form).content.decode()

    assert "0 festgeschrieben." in " ".join(page.split())
    assert '<span class="font-semibold">Acme:</span> <span lang="en">' in page
    assert BillingPeriod.objects.get(pk=office.period.pk).state == "review"


def test_a_draft_is_made_again_finalized_by_another_and_discarded(
    dora: Client, eric: Client, draft: Invoice
) -> None:
    address = f"{INVOICES}{draft.pk}"

    assert "Neu entwerfen" in shown(dora, page_of(draft))
    assert "Der Entwurf wurde neu erstellt." in shown(dora, f"{address}/redraft/", sent="1")
    draft.refresh_from_db()
    version = str(draft.version)
    assert "Die Rechnung ist festgeschrieben." in shown(
        eric, f"{address}/finalize/", version=version
    )

    text = shown(eric, page_of(draft))
    assert "Zahlung: offen . Offen: 3,00 EUR, fällig am" in text
    assert "Summe 3,00" in text
    assert f"Rechnung {Invoice.objects.get().reference}" in text


def test_a_credit_note_is_drafted_and_looked_at(dora: Client, final: Invoice) -> None:
    line = final.lines.get(project__slug="vision")
    amounts = {f"line-{line.pk}": "0.40"}

    text = shown(dora, f"{INVOICES}{final.pk}/credit/", reason="Kaputt.", **amounts)

    assert "Die Gutschrift ist entworfen; eine andere Person schreibt sie fest." in text
    assert "Grund: Kaputt." in text
    note = Invoice.objects.get(corrects=final)
    assert (f"{note.total:.2f}", note.state) == ("-0.40", "draft")
    assert "Höchstens 0,60 EUR sind davon übrig." in shown(dora, f"{INVOICES}lines/{line.pk}/")


def test_a_dispute_is_opened_answered_and_rejected(dora: Client, final: Invoice) -> None:
    disputes = "/admin/billing/dispute/"
    opened = shown(dora, f"{disputes}{final.pk}/open/", reason="Nicht unsere.")
    row = Dispute.objects.get()

    assert "Die Reklamation ist eröffnet." in opened
    assert "Reklamation über 3,00 EUR: offen" in opened
    assert "Reklamiert: 3,00 EUR, ohne Steuer." in opened
    assert "Die Nachricht ist geschrieben." in shown(
        dora, f"{disputes}{row.pk}/reply/", text="Welche Pods?"
    )
    rejected = shown(dora, f"{disputes}{row.pk}/reject/", text="Doch.")
    assert "Die Reklamation ist abgelehnt." in rejected
    assert "Reklamation über 3,00 EUR: abgelehnt" in rejected


def test_a_write_off_is_proposed_and_confirmed(dora: Client, eric: Client, final: Invoice) -> None:
    write_offs = "/admin/billing/writeoff/"
    form = {"amount": "2.00", "text": "Insolvent."}
    own = shown(dora, f"{write_offs}{final.pk}/open/", **form)
    row = WriteOff.objects.get()

    assert "Die Ausbuchung ist vorgeschlagen; eine andere Person bestätigt sie." in own
    assert "Ausbuchung über 2,00 EUR: vorgeschlagen" in own
    done = shown(eric, f"{write_offs}{row.pk}/confirm/", text="Ja.")
    assert "Die Ausbuchung ist gebucht." in done
    assert "Ausgebucht: 2,00 EUR." in done
    assert settled(final)[1] == "1.00"


def test_payments_are_imported_allocated_and_reversed(dora: Client, final: Invoice) -> None:
    file = SimpleUploadedFile("bank.csv", csv_text(("B1", "1.00", ""), ("B2", "x", "")).encode())
    answer = dora.post(f"{PAYMENTS}import/", {"format": "csv", "file": file})
    assert "1 erfasst, 0 schon bekannt, 1 abgelehnt." in text_of(answer)
    assert english_in(text_of(answer)) == []
    (row,) = Payment.objects.filter(kind="receipt")

    def act(action: str, note: str) -> str:
        form = {"action": action, "note": note, "_selected_action": str(row.pk)}
        return shown(dora, PAYMENTS, **form)

    refused = dora.post(
        PAYMENTS,
        {"action": "allocate_payments", "note": "GL-1", "_selected_action": str(row.pk)},
        follow=True,
    ).content.decode()
    assert '<span lang="en">There is no final invoice' in refused
    assert "ist zugeordnet." in act("allocate_payments", final.reference)
    assert settled(final)[0] == "part_paid"
    assert "teilweise bezahlt" in shown(dora, page_of(final))
    assert "ist wieder frei." in act("release_payments", "Falsch.")
    assert "ist storniert." in act("reverse_payments", "Keine Deckung.")


def test_open_items_and_the_account_of_an_organization(dora: Client, final: Invoice) -> None:
    items = shown(dora, f"{PAYMENTS}ageing/")
    assert "Was Organisationen schulden, nach Tagen der Überfälligkeit" in items
    assert "3,00 EUR" in items

    query = "?organization=acme&begin=2026-10-01&end=2027-01-01"
    account = shown(dora, f"{PAYMENTS}statement/{query}")
    assert "Eröffnungssaldo 0,00 EUR" in account
    assert f"Rechnung {final.reference} 3,00 EUR 3,00 EUR".lower() in account.lower()
    assert "Endsaldo 3,00 EUR" in account


def test_a_month_of_the_journal_is_exported_and_closed(dora: Client, final: Invoice) -> None:
    assert final.finalized_at is not None
    month = f"{final.finalized_at:%Y-%m}"

    exported = shown(dora, MONTHS, step="export", month=month, layout="sap")
    again = dora.post(MONTHS, {"step": "export", "month": month, "layout": "sap"})
    asked = shown(dora, MONTHS, step="close", month=month)

    assert f"Buchungsstapel 1 enthält 1 Buchung von {month}." in exported
    assert '<span lang="en">Every entry of the month is in a batch.' in again.content.decode()
    assert f"Geben Sie {month} ein, um ihn zu schließen:" in asked
    assert "Nichts ist geschlossen" in shown(dora, MONTHS, step="close", month=month, typed="x")


def test_what_is_done_in_german_is_audited_in_english(dora: Client, draft: Invoice) -> None:
    shown(dora, f"{INVOICES}{draft.pk}/redraft/", sent="1")

    entry = AuditEntry.objects.filter(actor_label="dora").latest("occurred_at", "pk")
    assert (entry.action, entry.object_kind) == ("billing:invoice:draft", "invoice")


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        (
            "/admin/billing/dailycost/costs/?begin=2026-10-01&last=2026-10-31",
            (
                "1. Okt. 2026 bis 31. Okt. 2026, verglichen mit",
                "Gruppieren nach",
                "Kosten sind die der Belastungen",
            ),
        ),
        (
            "/admin/billing/price/",
            ("Preisliste", "Preis je Einheitenstunde", "2,00 EUR", "Ein Preis wird nie geändert"),
        ),
        (
            "/admin/billing/charge/",
            ("Belastungen entstehen aus versiegelten Messstunden", "Einheitenstunden", "1,0000"),
        ),
        (
            "/admin/billing/billingperiod/",
            ("Abrechnungsmonat", "Zur Prüfung geben", "01.10.2026 00:00 bis 01.11.2026"),
        ),
        (
            "/admin/billing/exportschedule/add/",
            ("Exportzeitplan", "Leer für alle Organisationen.", "Monat, als ein Zip aller Dateien"),
        ),
        (
            "/admin/billing/taxrate/add/",
            ("Steuersatz", "S: Normalsatz", "Befreiungstext"),
        ),
    ],
)
def test_lists_and_forms_of_finance_have_german_words_and_figures(
    dora: Client, path: str, texts: tuple[str, ...]
) -> None:
    text = shown(dora, path)

    assert [one for one in texts if one not in text] == []
