"""The few sentences of an e-invoice, in the customer's language."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from billing.domain.documents.document import STANDARD_LANGUAGE


@dataclass(frozen=True)
class EInvoiceTexts:
    """Sentences of one language; names in braces are filled in."""

    untaxed: str
    pay: str
    credited: str
    carried: str
    difference: str
    project: str
    project_id: str


_TEXTS: Final[Mapping[str, EInvoiceTexts]] = {
    "en": EInvoiceTexts(
        untaxed="Outside the scope of VAT",
        pay="Please pay with reference {reference}.",
        credited="The amount is credited to the customer's account.",
        carried=(
            "Brought forward from earlier documents: {brought} {currency}. "
            "Carried to the next document: {forward} {currency}."
        ),
        difference="Rounded together with what was billed of the month before",
        project="Project",
        project_id="Project ID",
    ),
    "de": EInvoiceTexts(
        untaxed="Nicht steuerbar",
        pay="Bitte zahlen Sie unter Angabe von {reference}.",
        credited="Der Betrag wird dem Kundenkonto gutgeschrieben.",
        carried=(
            "Vortrag aus früheren Belegen: {brought} {currency}. "
            "Übertrag auf den nächsten Beleg: {forward} {currency}."
        ),
        difference="Gerundet zusammen mit dem bisher Berechneten des Monats",
        project="Projekt",
        project_id="Projekt-ID",
    ),
}


def texts_of(language: str) -> EInvoiceTexts:
    """Return the sentences of a language; in English where it has none."""
    return _TEXTS.get(language, _TEXTS[STANDARD_LANGUAGE])
