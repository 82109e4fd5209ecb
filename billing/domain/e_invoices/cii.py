"""An e-invoice in UN/CEFACT Cross Industry Invoice D22B, as Factur-X and ZUGFeRD embed it.

The order of elements is that of the schema; each function is a group of it.
"""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Final

from billing.domain.e_invoices.invoice import EInvoice, EInvoiceLine, EInvoiceParty, EInvoiceTax
from billing.domain.e_invoices.markup import DECLARATION, element, leaf

PROFILE: Final = "urn:cen.eu:en16931:2017"
"""BT-24: the standard itself, without a further national specification."""
VAT: Final = "VAT"
_URN: Final = "urn:un:unece:uncefact:data:standard:"
_NAMESPACES: Final = {
    "xmlns:rsm": f"{_URN}CrossIndustryInvoice:100",
    "xmlns:ram": f"{_URN}ReusableAggregateBusinessInformationEntity:100",
    "xmlns:udt": f"{_URN}UnqualifiedDataType:100",
}
_DAY: Final = "%Y%m%d"


def write_cii(invoice: EInvoice) -> bytes:
    """Return an e-invoice as CII, in UTF-8."""
    root = element(
        "rsm:CrossIndustryInvoice",
        element(
            "rsm:ExchangedDocumentContext",
            element("ram:GuidelineSpecifiedDocumentContextParameter", leaf("ram:ID", PROFILE)),
        ),
        element(
            "rsm:ExchangedDocument",
            leaf("ram:ID", invoice.number),
            leaf("ram:TypeCode", invoice.kind),
            _moment("ram:IssueDateTime", invoice.issued_on),
            *(element("ram:IncludedNote", leaf("ram:Content", note)) for note in invoice.notes),
        ),
        element(
            "rsm:SupplyChainTradeTransaction",
            *(_line(line, invoice) for line in invoice.lines),
            _agreement(invoice),
            _delivery(invoice),
            _settlement(invoice),
        ),
        **_NAMESPACES,
    )
    return f"{DECLARATION}{root}\n".encode()


def _line(line: EInvoiceLine, invoice: EInvoice) -> str:
    return element(
        "ram:IncludedSupplyChainTradeLineItem",
        element("ram:AssociatedDocumentLineDocument", leaf("ram:LineID", line.number)),
        element(
            "ram:SpecifiedTradeProduct",
            leaf("ram:Name", line.name),
            leaf("ram:Description", line.description),
            *(
                element(
                    "ram:ApplicableProductCharacteristic",
                    leaf("ram:Description", name),
                    leaf("ram:Value", value),
                )
                for name, value in line.attributes
            ),
        ),
        element(
            "ram:SpecifiedLineTradeAgreement",
            element(
                "ram:NetPriceProductTradePrice",
                leaf("ram:ChargeAmount", line.price),
                leaf("ram:BasisQuantity", 1, unitCode=line.unit),
            ),
        ),
        element(
            "ram:SpecifiedLineTradeDelivery",
            leaf("ram:BilledQuantity", line.quantity, unitCode=line.unit),
        ),
        element(
            "ram:SpecifiedLineTradeSettlement",
            element("ram:ApplicableTradeTax", *_category(invoice.tax)),
            _span(line.begin_on, line.end_on),
            _difference(line, invoice),
            element(
                "ram:SpecifiedTradeSettlementLineMonetarySummation",
                leaf("ram:LineTotalAmount", line.net),
            ),
            element(
                "ram:ReceivableSpecifiedTradeAccountingAccount", leaf("ram:ID", line.accounting)
            ),
        ),
    )


def _difference(line: EInvoiceLine, invoice: EInvoice) -> str:
    if not line.difference:
        return ""
    return element(
        "ram:SpecifiedTradeAllowanceCharge",
        element(
            "ram:ChargeIndicator",
            leaf("udt:Indicator", "true" if line.difference > 0 else "false"),
        ),
        leaf("ram:ActualAmount", abs(line.difference)),
        leaf("ram:Reason", invoice.difference_reason),
    )


def _agreement(invoice: EInvoice) -> str:
    return element(
        "ram:ApplicableHeaderTradeAgreement",
        leaf("ram:BuyerReference", invoice.reference),
        _party("ram:SellerTradeParty", invoice.seller),
        _party("ram:BuyerTradeParty", invoice.buyer),
        element(
            "ram:BuyerOrderReferencedDocument",
            leaf("ram:IssuerAssignedID", invoice.purchase_order),
        ),
    )


def _party(name: str, party: EInvoiceParty) -> str:
    lines = zip(("ram:LineOne", "ram:LineTwo", "ram:LineThree"), party.address, strict=False)
    return element(
        name,
        leaf("ram:ID", party.identifier),
        leaf("ram:Name", party.name),
        element("ram:SpecifiedLegalOrganization", leaf("ram:ID", party.registration)),
        element(
            "ram:DefinedTradeContact",
            leaf("ram:PersonName", party.contact),
            element("ram:EmailURIUniversalCommunication", leaf("ram:URIID", party.email)),
        ),
        element(
            "ram:PostalTradeAddress",
            *(leaf(name, line) for name, line in lines),
            leaf("ram:CountryID", party.country),
        ),
        element("ram:SpecifiedTaxRegistration", leaf("ram:ID", party.vat_id, schemeID="VA")),
        element("ram:SpecifiedTaxRegistration", leaf("ram:ID", party.tax_number, schemeID="FC")),
    )


def _delivery(invoice: EInvoice) -> str:
    return element(
        "ram:ApplicableHeaderTradeDelivery",
        element(
            "ram:ActualDeliverySupplyChainEvent",
            _moment("ram:OccurrenceDateTime", invoice.end_on),
        ),
    )


def _settlement(invoice: EInvoice) -> str:
    return element(
        "ram:ApplicableHeaderTradeSettlement",
        leaf("ram:PaymentReference", invoice.number if invoice.payment else ""),
        leaf("ram:InvoiceCurrencyCode", invoice.currency),
        _payment(invoice),
        _tax(invoice),
        _span(invoice.begin_on, invoice.end_on),
        _terms(invoice),
        _sums(invoice),
        element("ram:InvoiceReferencedDocument", leaf("ram:IssuerAssignedID", invoice.corrects)),
        element(
            "ram:ReceivableSpecifiedTradeAccountingAccount", leaf("ram:ID", invoice.accounting)
        ),
    )


def _payment(invoice: EInvoice) -> str:
    payment = invoice.payment
    if payment is None:
        return ""
    return element(
        "ram:SpecifiedTradeSettlementPaymentMeans",
        leaf("ram:TypeCode", payment.means),
        element(
            "ram:PayeePartyCreditorFinancialAccount",
            leaf("ram:IBANID" if payment.is_iban else "ram:ProprietaryID", payment.account),
        ),
    )


def _tax(invoice: EInvoice) -> str:
    tax = invoice.tax
    kind, category, *rate = _category(tax)
    day = "" if invoice.tax_point is None else _day("udt:DateString", invoice.tax_point)
    return element(
        "ram:ApplicableTradeTax",
        leaf("ram:CalculatedAmount", tax.amount),
        kind,
        leaf("ram:ExemptionReason", tax.reason),
        leaf("ram:BasisAmount", tax.base),
        category,
        leaf("ram:ExemptionReasonCode", tax.reason_code),
        element("ram:TaxPointDate", day),
        *rate,
    )


def _category(tax: EInvoiceTax) -> Iterator[str]:
    yield leaf("ram:TypeCode", VAT)
    yield leaf("ram:CategoryCode", tax.category)
    if tax.rate:
        yield leaf("ram:RateApplicablePercent", tax.rate)


def _terms(invoice: EInvoice) -> str:
    due = "" if invoice.due_on is None else _moment("ram:DueDateDateTime", invoice.due_on)
    return element("ram:SpecifiedTradePaymentTerms", leaf("ram:Description", invoice.terms), due)


def _sums(invoice: EInvoice) -> str:
    return element(
        "ram:SpecifiedTradeSettlementHeaderMonetarySummation",
        leaf("ram:LineTotalAmount", invoice.lines_total),
        leaf("ram:TaxBasisTotalAmount", invoice.lines_total),
        leaf("ram:TaxTotalAmount", invoice.tax.amount, currencyID=invoice.currency),
        leaf("ram:GrandTotalAmount", invoice.gross),
        *_paid(invoice.paid),
        leaf("ram:DuePayableAmount", invoice.due),
    )


def _paid(paid: Decimal) -> Iterator[str]:
    if paid:
        yield leaf("ram:TotalPrepaidAmount", paid)


def _span(begin_on: date, end_on: date) -> str:
    return element(
        "ram:BillingSpecifiedPeriod",
        _moment("ram:StartDateTime", begin_on),
        _moment("ram:EndDateTime", end_on),
    )


def _moment(name: str, day: date) -> str:
    return element(name, _day("udt:DateTimeString", day))


def _day(name: str, day: date) -> str:
    return leaf(name, day.strftime(_DAY), format="102")
