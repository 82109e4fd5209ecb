"""What a mail about a final document says, in each language of documents."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from billing.domain.documents.document_text import money_text
from billing.domain.documents.invoicing import InvoiceKind

_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"invoice": "Invoice", "credit_note": "Credit note", "debit_note": "Debit note"},
    "de": {"invoice": "Rechnung", "credit_note": "Gutschrift", "debit_note": "Nachbelastung"},
}
_SUBJECTS: Final = {
    "en": "{name} {reference} for {month}: {amount}",
    "de": "{name} {reference} für {month}: {amount}",
}
_SENTENCES: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "issued": "{issuer} has issued {name_low} {reference} for {customer}, billing month "
        "{month}.",
        "amount": "Amount with taxes: {amount}",
        "balance": "Amount due, with the balance of earlier documents: {amount_due}",
        "due": "Due on: {due_on}",
        "corrects": "It corrects {corrects}. Reason: {reason}",
        "purchase_order": "Purchase order: {purchase_order}",
    },
    "de": {
        "issued": "{issuer} hat {name} {reference} für {customer} ausgestellt, Abrechnungsmonat "
        "{month}.",
        "amount": "Betrag mit Steuern: {amount}",
        "balance": "Zu zahlen, mit dem Saldo früherer Belege: {amount_due}",
        "due": "Fällig am: {due_on}",
        "corrects": "Sie korrigiert {corrects}. Grund: {reason}",
        "purchase_order": "Bestellnummer: {purchase_order}",
    },
}


def issued_text(
    document: Mapping[str, Any],
    *,
    payable: Decimal,
    amount_due: Decimal,
    purchase_order: str,
    language: str,
) -> tuple[str, str]:
    """Return subject and text about a final document.

    Args:
        document: As `issue_document` returns it.
        payable: The total with taxes.
        amount_due: With the balance that it takes over from documents before it.
        purchase_order: Of its recipient; "" without one.
        language: "en" or "de".
    """
    kind = document.get("kind", InvoiceKind.INVOICE.value)
    name, currency = _NAMES[language][kind], document["currency"]
    facts = {
        "name": name,
        "name_low": name.lower(),
        "reference": document["reference"],
        "month": document["period"]["label"],
        "amount": _amount(money_text(payable, currency), language=language),
        "amount_due": _amount(money_text(amount_due, currency), language=language),
        "issuer": document["issuer"]["name"],
        "customer": document["customer"]["name"],
        "due_on": document.get("due_on", ""),
        "corrects": document.get("corrects", ""),
        "reason": document.get("reason", ""),
        "purchase_order": purchase_order,
    }
    wanted = {
        "issued": True,
        "corrects": facts["corrects"],
        "purchase_order": purchase_order,
        "amount": True,
        "balance": amount_due != payable and facts["due_on"],
        "due": facts["due_on"],
    }
    sentences = _SENTENCES[language]
    first, *rest = (sentences[key].format(**facts) for key, is_said in wanted.items() if is_said)
    text = "\n".join([first, "", *rest])
    return _SUBJECTS[language].format(**facts), text


def _amount(text: str, *, language: str) -> str:
    """Return an amount with the marks of a language: "1,234.50 EUR" is "1.234,50 EUR" in German."""
    return text.translate(str.maketrans(",.", ".,")) if language == "de" else text
