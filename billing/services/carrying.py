"""What the documents of a billing run carry, one after the other as they become final."""

from collections.abc import Iterable, Mapping, Sequence

from billing.domain.documents.carrying import CarriedAmounts, CarriedBalance, carry, gross_of
from billing.domain.documents.document import Document, InvoiceTerms
from billing.domain.documents.invoicing import InvoiceKind
from billing.domain.documents.routing import Payer, Route, numbering_order, payer_of
from billing.domain.errors import DraftStaleError
from billing.models import BillingPeriod, Invoice
from billing.selectors.documents.routing import route_of
from billing.selectors.ledger.carried import carried_balances


def carry_on(
    documents: Iterable[tuple[str, Route, Document]],
    balances: Mapping[Payer, CarriedBalance],
    *,
    label: str,
    terms: InvoiceTerms,
) -> dict[Route, CarriedAmounts]:
    """Return what the documents of a run carry, one after the other as they become final.

    Args:
        documents: Prefix of their numbers, route and text.
        balances: What documents before the run carried.
        label: The month.
        terms: The site's.
    """
    left, carried = dict(balances), {}
    invoice = InvoiceKind.INVOICE.value
    by_route = {
        route: (document.get("kind", invoice), series, document)
        for series, route, document in documents
    }
    for route in sorted(by_route, key=lambda route: numbering_order(*by_route[route][:2], route)):
        kind, _, document = by_route[route]
        payer = payer_of(route)
        carried[route] = carry(
            gross_of(document),
            left.get(payer, CarriedBalance()),
            label=label,
            kind=kind,
            terms=terms.carry,
        )
        left[payer] = carried[route].left()
    return carried


def with_note(
    balances: Mapping[Payer, CarriedBalance], note: Invoice
) -> dict[Payer, CarriedBalance]:
    """Return balances with a credit note, which becomes final before what replaces its invoice."""
    payer = payer_of(route_of(note))
    before = balances.get(payer, CarriedBalance())
    amount = before.amount + note.carried_forward - note.brought_forward
    return {**balances, payer: CarriedBalance(amount, before.since if amount else "")}


def require_carried(
    invoices: Sequence[Invoice],
    period: BillingPeriod,
    *,
    terms: InvoiceTerms,
) -> None:
    """Refuse drafts of a run that show another balance than final documents carried by now."""
    payer = period.organization_id
    balances = carried_balances({payer: invoices[0].currency})[payer]
    documents = [(row.series, route_of(row), row.document) for row in invoices]
    carried = carry_on(documents, balances, label=period.label, terms=terms)
    for _, route, document in documents:
        if carried[route].text().get("carried") != document.get("carried"):
            raise DraftStaleError(
                "The carried balance has changed since the draft was made.",
                facts={"changed": "carried balance"},
            )
