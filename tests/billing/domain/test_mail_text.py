"""What mails about documents say, in both languages and for each kind."""

from decimal import Decimal
from typing import Any

import pytest

from billing.domain.documents.mail_text import issued_text

INVOICE = {
    "reference": "GL-2026-000012",
    "period": {"label": "2026-10"},
    "currency": "EUR",
    "issuer": {"name": "GPU Platform"},
    "customer": {"name": "Acme GmbH"},
    "due_on": "2026-12-02",
}
MONTH = "Abrechnungsmonat 2026-10"
NOTE = {
    **{name: value for name, value in INVOICE.items() if name != "due_on"},
    "kind": "credit_note",
    "reference": "CN-2026-000003",
    "corrects": "GL-2026-000012",
    "reason": "Broken fan",
}


def text_of(document: dict[str, Any], language: str, **figures: str) -> tuple[str, list[str]]:
    payable = Decimal(figures.get("payable", "12345.60"))
    subject, text = issued_text(
        document,
        payable=payable,
        amount_due=Decimal(figures.get("amount_due", payable)),
        purchase_order=figures.get("purchase_order", ""),
        language=language,
    )
    return subject, text.splitlines()


def test_an_invoice_says_who_owes_what_until_when() -> None:
    subject, lines = text_of(INVOICE, "en", purchase_order="PO-7")

    assert subject == "Invoice GL-2026-000012 for 2026-10: 12,345.60 EUR"
    assert lines == [
        "GPU Platform has issued invoice GL-2026-000012 for Acme GmbH, billing month 2026-10.",
        "",
        "Purchase order: PO-7",
        "Amount with taxes: 12,345.60 EUR",
        "Due on: 2026-12-02",
    ]


def test_german_has_its_own_marks_and_words() -> None:
    subject, lines = text_of(INVOICE, "de")

    assert subject == "Rechnung GL-2026-000012 für 2026-10: 12.345,60 EUR"
    assert lines == [
        f"GPU Platform hat Rechnung GL-2026-000012 für Acme GmbH ausgestellt, {MONTH}.",
        "",
        "Betrag mit Steuern: 12.345,60 EUR",
        "Fällig am: 2026-12-02",
    ]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "Amount due, with the balance of earlier documents: 12,300.00 EUR"),
        ("de", "Zu zahlen, mit dem Saldo früherer Belege: 12.300,00 EUR"),
    ],
)
def test_a_balance_of_earlier_documents_is_named(language: str, expected: str) -> None:
    _, lines = text_of(INVOICE, language, amount_due="12300.00")

    assert expected in lines


@pytest.mark.parametrize(
    ("language", "subject", "correction"),
    [
        (
            "en",
            "Credit note CN-2026-000003 for 2026-10: -1.50 EUR",
            "It corrects GL-2026-000012. Reason: Broken fan",
        ),
        (
            "de",
            "Gutschrift CN-2026-000003 für 2026-10: -1,50 EUR",
            "Sie korrigiert GL-2026-000012. Grund: Broken fan",
        ),
    ],
)
def test_a_note_names_what_it_corrects_and_has_no_due_date(
    language: str, subject: str, correction: str
) -> None:
    found, lines = text_of(NOTE, language, payable="-1.50", amount_due="0")

    assert found == subject
    assert correction in lines
    assert not any(line.startswith(("Due", "Fällig", "Amount due", "Zu zahlen")) for line in lines)


@pytest.mark.parametrize("name", ["{payable}", "🧪 مرحبا", "<b>&", "a\nb", "%s {0}"])
def test_names_are_said_as_they_are(name: str) -> None:
    for language in ("en", "de"):
        subject, text = issued_text(
            {**INVOICE, "customer": {"name": name}},
            payable=Decimal(1),
            amount_due=Decimal(1),
            purchase_order=name,
            language=language,
        )

        assert text.count(name) == 2
        assert name not in subject
