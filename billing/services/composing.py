"""Composing the documents of a billing run: one for each route, with issuer, customer and tax."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from billing.domain.documents.document import (
    STANDARD_LANGUAGE,
    Document,
    InvoiceTerms,
    Party,
    PeriodFacts,
    clean_text,
    compose_document,
    parties_text,
)
from billing.domain.documents.invoicing import Line, total_of
from billing.domain.documents.routing import Route, split_by_route
from billing.domain.documents.taxes import TaxKey, TaxTerms, printed_terms, tax_point_of, tax_text
from billing.domain.errors import DraftStaleError
from billing.domain.ledger.statement import AccountStatement, statement_document
from billing.domain.period import HourSpan
from billing.models import BillingPeriod, Invoice, Recipient
from billing.selectors.documents.payers import PayerFacts
from billing.selectors.documents.routing import (
    current_routes,
    issuer_of,
    recipient_of,
)
from billing.selectors.documents.taxes import tax_terms_of
from billing.services.carrying import carry_on
from tenants.models import Organization


@dataclass(frozen=True)
class ComposedDocument:
    """One document of a run before it is written.

    Attributes:
        terms: With the prefixes of its issuer.
    """

    route: Route
    document: Document
    lines: tuple[Line, ...]
    terms: InvoiceTerms


@dataclass(frozen=True)
class Billing:
    """Parties, language and tax of a document, as they are now.

    Attributes:
        terms: The site's, with its issuer or the one that the project is routed to.
    """

    terms: InvoiceTerms
    customer: Party
    language: str
    tax: TaxTerms | None


def billing_of(
    route: Route,
    period: BillingPeriod,
    organization: Organization,
    *,
    treatment: TaxKey | None,
    terms: InvoiceTerms,
) -> Billing:
    """Return issuer, customer and tax of a route.

    Args:
        route: What a document is for.
        period: Its month.
        organization: Whose use it is.
        treatment: How the organization is taxed.
        terms: The site's.

    Raises:
        TaxRateMissingError: A tax treatment has no rate at the tax point.
    """
    recipient = recipient_of(route.recipient_id)
    return Billing(
        terms=issuing_terms(route.issuer_id, terms=terms),
        customer=customer_of(organization, recipient),
        language=language_of(organization, recipient),
        tax=tax_terms_of(treatment, recipient=recipient, tax_point=tax_point_of(period.label)),
    )


def compose_run(
    period: BillingPeriod,
    organization: Organization,
    lines: Sequence[Line],
    *,
    payer: PayerFacts,
    terms: InvoiceTerms,
    at: datetime,
) -> list[ComposedDocument]:
    """Return the documents that the lines of a run are split into, as projects are routed now.

    Args:
        period: Its month.
        organization: Whose use it is.
        lines: Of the whole run.
        payer: How the organization is taxed, and what its documents carried before the run.
        terms: The site's.
        at: When.

    Raises:
        TaxRateMissingError: A tax treatment has no rate at the tax point.
    """
    currency = organization.billing_currency
    composed = []
    for route, part in split_by_route(lines, current_routes(organization.pk)).items():
        billing = billing_of(route, period, organization, treatment=payer.treatment, terms=terms)
        document = compose_document(
            issuer=billing.terms.issuer,
            customer=billing.customer,
            language=billing.language,
            period=_period_facts(period, organization),
            lines=part,
            currency=currency,
            drafted_at=at,
        )
        net, tax_point = total_of(part, currency=currency), tax_point_of(period.label).isoformat()
        if route.purchase_order:
            document["purchase_order"] = clean_text(route.purchase_order)
        document |= tax_text(net, billing.tax, tax_point=tax_point)
        composed.append(ComposedDocument(route, document, part, billing.terms))
    carried = carry_on(
        (
            (part.terms.series_of(part.document.get("kind", "")), part.route, part.document)
            for part in composed
        ),
        payer.balances,
        label=period.label,
        terms=terms,
    )
    return [replace(part, document=part.document | carried[part.route].text()) for part in composed]


def require_parties(invoice: Invoice, billing: Billing) -> None:
    """Refuse a draft that shows another issuer or customer than they are now."""
    printed = parties_text(issuer=billing.terms.issuer, customer=billing.customer)
    changed = sorted(
        f"{party}.{name}"
        for party, fields in printed.items()
        for name in {*fields, *invoice.document[party]}
        if invoice.document[party].get(name, "") != fields.get(name, "")
    )
    if invoice.document.get("language", STANDARD_LANGUAGE) != billing.language:
        changed.append("language")
    if changed:
        raise DraftStaleError(
            "What is printed of issuer or customer has changed since the draft was made.",
            facts={"changed": ", ".join(changed)},
        )


def require_tax(invoice: Invoice, billing: Billing) -> None:
    """Refuse a draft that shows another tax than applies now."""
    if printed_terms(invoice.document) != billing.tax:
        raise DraftStaleError(
            "The organization's tax has changed since the draft was made.",
            facts={"changed": "taxes"},
        )


def issuing_terms(issuer_id: UUID | None, *, terms: InvoiceTerms) -> InvoiceTerms:
    """Return the site's terms with the name and the series of an issuer; None is the site's own.

    An issuer numbers its debit notes among its invoices.
    """
    issuer = issuer_of(issuer_id)
    if issuer is None:
        return terms
    party = Party(
        name=issuer.name,
        address=issuer.address,
        tax_id=issuer.tax_id,
        bank_account=issuer.bank_account,
        country=issuer.country,
    )
    return replace(
        terms,
        issuer=party,
        series=issuer.series,
        credit_series=issuer.credit_series,
        debit_series=issuer.series,
        first_number=issuer.first_number,
    )


def customer_of(organization: Organization, recipient: Recipient | None = None) -> Party:
    """Return an organization, or the recipient that is billed instead, as it is printed."""
    if recipient is not None:
        return Party(
            name=recipient.name,
            address=recipient.address,
            tax_id=recipient.tax_id,
            contact=recipient.contact,
            email=recipient.email,
            cost_center=recipient.cost_center,
            buyer_reference=recipient.buyer_reference,
            country=recipient.country,
        )
    return Party(
        name=organization.name,
        address=organization.billing_address,
        tax_id=organization.tax_id,
        contact=organization.billing_contact,
        email=organization.billing_email,
        cost_center=organization.cost_center,
        country=organization.country,
    )


def printed_statement(
    organization: Organization, made: AccountStatement, *, terms: InvoiceTerms, at: datetime
) -> Document:
    """Return the account of an organization as it is printed, in its language."""
    return statement_document(
        made,
        issuer=terms.issuer,
        customer=customer_of(organization),
        language=organization.language,
        at=at,
    )


def language_of(organization: Organization, recipient: Recipient | None) -> str:
    """Return the language of a customer's documents."""
    own = "" if recipient is None else recipient.language
    return own or organization.language


def _period_facts(period: BillingPeriod, organization: Organization) -> PeriodFacts:
    return PeriodFacts(
        label=period.label,
        time_zone=organization.time_zone,
        span=HourSpan(period.hours.lower, period.hours.upper),
    )
