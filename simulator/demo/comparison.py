"""The product's invoices beside the oracle's, line by line and unit-second by unit-second."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from billing.domain.money import Money
from billing.models import Invoice
from simulator.demo.oracle import ExpectedInvoice, OracleVerdict

LineKey = tuple[str, str, str, Decimal]


@dataclass(frozen=True)
class InvoiceComparison:
    """One organization's invoice and what the oracle expected.

    Attributes:
        differing_lines: Keys with a different amount, or on one side only; sorted.
    """

    organization: str
    reference: str
    currency: str
    invoiced_total: Decimal
    expected_total: Decimal
    invoiced_unit_seconds: Mapping[str, int]
    expected_unit_seconds: Mapping[str, int]
    differing_lines: tuple[LineKey, ...]

    @property
    def is_equal(self) -> bool:
        """Whether money and quantity agree exactly."""
        return (
            self.invoiced_total == self.expected_total
            and dict(self.invoiced_unit_seconds) == dict(self.expected_unit_seconds)
            and not self.differing_lines
        )


def compare(verdict: OracleVerdict, invoices: Iterable[Invoice]) -> tuple[InvoiceComparison, ...]:
    """Return one comparison per expected invoice, in the oracle's order.

    Args:
        verdict: The oracle's result.
        invoices: The month's invoices, with organization and lines at hand.

    Raises:
        KeyError: An organization has no invoice.
    """
    by_slug = {invoice.organization.slug: invoice for invoice in invoices}
    return tuple(
        _compare(expected, by_slug[expected.organization]) for expected in verdict.invoices
    )


def _compare(expected: ExpectedInvoice, invoice: Invoice) -> InvoiceComparison:
    lines: dict[LineKey, Decimal] = {}
    unit_seconds: dict[str, int] = defaultdict(int)
    for line in invoice.lines.all():
        key = (line.project.slug, line.size, line.price_group, line.unit_price.normalize())
        lines[key] = line.amount
        unit_seconds[line.size] += line.unit_seconds
    wanted = {(*key[:3], key[3].normalize()): amount for key, amount in expected.lines.items()}
    differing = sorted(
        key for key in lines.keys() | wanted.keys() if lines.get(key) != wanted.get(key)
    )
    return InvoiceComparison(
        organization=expected.organization,
        reference=invoice.reference,
        currency=invoice.currency,
        invoiced_total=Money(invoice.total, invoice.currency).amount,
        expected_total=expected.total,
        invoiced_unit_seconds=dict(unit_seconds),
        expected_unit_seconds=expected.unit_seconds,
        differing_lines=tuple(differing),
    )
