"""An e-invoice in OASIS UBL 2.1: an Invoice, or a CreditNote.

The order of elements is that of the schemas; each function is a group of them.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from billing.domain.documents.invoicing import InvoiceKind
from billing.domain.e_invoices.cii import PROFILE, VAT
from billing.domain.e_invoices.invoice import (
    TYPE_CODES,
    EInvoice,
    EInvoiceLine,
    EInvoiceParty,
)
from billing.domain.e_invoices.markup import DECLARATION, element, leaf

_URN: Final = "urn:oasis:names:specification:ubl:schema:xsd:"
_COMPONENTS: Final = {
    "xmlns:cac": f"{_URN}CommonAggregateComponents-2",
    "xmlns:cbc": f"{_URN}CommonBasicComponents-2",
}


def write_ubl(invoice: EInvoice) -> bytes:
    """Return an e-invoice as UBL, in UTF-8."""
    is_credit = _is_credit(invoice)
    name = "CreditNote" if is_credit else "Invoice"
    point = [] if invoice.tax_point is None else [leaf("cbc:TaxPointDate", invoice.tax_point)]
    kind = leaf(f"cbc:{name}TypeCode", invoice.kind)
    notes = [leaf("cbc:Note", note) for note in invoice.notes]
    # A credit note has the tax point before its type.
    head = [*point, kind, *notes] if is_credit else [*_due(invoice), kind, *notes, *point]
    root = element(
        name,
        leaf("cbc:CustomizationID", PROFILE),
        leaf("cbc:ID", invoice.number),
        leaf("cbc:IssueDate", invoice.issued_on),
        *head,
        leaf("cbc:DocumentCurrencyCode", invoice.currency),
        leaf("cbc:AccountingCost", invoice.accounting),
        leaf("cbc:BuyerReference", invoice.reference),
        _period(invoice),
        element("cac:OrderReference", leaf("cbc:ID", invoice.purchase_order)),
        element(
            "cac:BillingReference",
            element("cac:InvoiceDocumentReference", leaf("cbc:ID", invoice.corrects)),
        ),
        element("cac:AccountingSupplierParty", _party(invoice.seller)),
        element("cac:AccountingCustomerParty", _party(invoice.buyer)),
        element("cac:Delivery", leaf("cbc:ActualDeliveryDate", invoice.end_on)),
        _payment(invoice),
        element("cac:PaymentTerms", leaf("cbc:Note", invoice.terms)),
        _tax(invoice),
        _sums(invoice),
        *(_line(line, invoice) for line in invoice.lines),
        **{"xmlns": f"{_URN}{name}-2", **_COMPONENTS},
    )
    return f"{DECLARATION}{root}\n".encode()


def _is_credit(invoice: EInvoice) -> bool:
    return invoice.kind == TYPE_CODES[InvoiceKind.CREDIT_NOTE.value]


def _due(invoice: EInvoice) -> Iterator[str]:
    if invoice.due_on is not None:
        yield leaf("cbc:DueDate", invoice.due_on)


def _period(invoice: EInvoice | EInvoiceLine) -> str:
    return element(
        "cac:InvoicePeriod",
        leaf("cbc:StartDate", invoice.begin_on),
        leaf("cbc:EndDate", invoice.end_on),
    )


def _party(party: EInvoiceParty) -> str:
    first, second, third = (*party.address, "", "", "")[:3]
    return element(
        "cac:Party",
        element("cac:PartyIdentification", leaf("cbc:ID", party.identifier)),
        element(
            "cac:PostalAddress",
            leaf("cbc:StreetName", first),
            leaf("cbc:AdditionalStreetName", second),
            element("cac:AddressLine", leaf("cbc:Line", third)),
            element("cac:Country", leaf("cbc:IdentificationCode", party.country)),
        ),
        _registration(party.vat_id, VAT),
        # The national tax number has a scheme of any other name.
        _registration(party.tax_number, "TAX"),
        element(
            "cac:PartyLegalEntity",
            leaf("cbc:RegistrationName", party.name),
            leaf("cbc:CompanyID", party.registration),
        ),
        element(
            "cac:Contact",
            leaf("cbc:Name", party.contact),
            leaf("cbc:ElectronicMail", party.email),
        ),
    )


def _registration(number: str, scheme: str) -> str:
    if not number:
        return ""
    return element("cac:PartyTaxScheme", leaf("cbc:CompanyID", number), _scheme(scheme))


def _scheme(name: str) -> str:
    return element("cac:TaxScheme", leaf("cbc:ID", name))


def _payment(invoice: EInvoice) -> str:
    payment = invoice.payment
    if payment is None:
        return ""
    return element(
        "cac:PaymentMeans",
        leaf("cbc:PaymentMeansCode", payment.means),
        leaf("cbc:PaymentID", invoice.number),
        element("cac:PayeeFinancialAccount", leaf("cbc:ID", payment.account)),
    )


def _tax(invoice: EInvoice) -> str:
    tax = invoice.tax
    return element(
        "cac:TaxTotal",
        _amount("cbc:TaxAmount", tax.amount, invoice),
        element(
            "cac:TaxSubtotal",
            _amount("cbc:TaxableAmount", tax.base, invoice),
            _amount("cbc:TaxAmount", tax.amount, invoice),
            element(
                "cac:TaxCategory",
                leaf("cbc:ID", tax.category),
                leaf("cbc:Percent", tax.rate),
                leaf("cbc:TaxExemptionReasonCode", tax.reason_code),
                leaf("cbc:TaxExemptionReason", tax.reason),
                _scheme(VAT),
            ),
        ),
    )


def _sums(invoice: EInvoice) -> str:
    return element(
        "cac:LegalMonetaryTotal",
        _amount("cbc:LineExtensionAmount", invoice.lines_total, invoice),
        _amount("cbc:TaxExclusiveAmount", invoice.lines_total, invoice),
        _amount("cbc:TaxInclusiveAmount", invoice.gross, invoice),
        _amount("cbc:PrepaidAmount", invoice.paid, invoice) if invoice.paid else "",
        _amount("cbc:PayableAmount", invoice.due, invoice),
    )


def _line(line: EInvoiceLine, invoice: EInvoice) -> str:
    name = "CreditNote" if _is_credit(invoice) else "Invoice"
    quantity = "cbc:CreditedQuantity" if _is_credit(invoice) else "cbc:InvoicedQuantity"
    return element(
        f"cac:{name}Line",
        leaf("cbc:ID", line.number),
        leaf(quantity, line.quantity, unitCode=line.unit),
        _amount("cbc:LineExtensionAmount", line.net, invoice),
        leaf("cbc:AccountingCost", line.accounting),
        _period(line),
        _difference(line, invoice),
        element(
            "cac:Item",
            leaf("cbc:Description", line.description),
            leaf("cbc:Name", line.name),
            element(
                "cac:ClassifiedTaxCategory",
                leaf("cbc:ID", invoice.tax.category),
                leaf("cbc:Percent", invoice.tax.rate),
                _scheme(VAT),
            ),
            *(
                element(
                    "cac:AdditionalItemProperty", leaf("cbc:Name", name), leaf("cbc:Value", value)
                )
                for name, value in line.attributes
            ),
        ),
        element(
            "cac:Price",
            _amount("cbc:PriceAmount", line.price, invoice),
            leaf("cbc:BaseQuantity", 1, unitCode=line.unit),
        ),
    )


def _difference(line: EInvoiceLine, invoice: EInvoice) -> str:
    if not line.difference:
        return ""
    return element(
        "cac:AllowanceCharge",
        leaf("cbc:ChargeIndicator", "true" if line.difference > 0 else "false"),
        leaf("cbc:AllowanceChargeReason", invoice.difference_reason),
        _amount("cbc:Amount", abs(line.difference), invoice),
    )


def _amount(name: str, amount: Decimal, invoice: EInvoice) -> str:
    return leaf(name, amount, currencyID=invoice.currency)
