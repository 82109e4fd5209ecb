"""What FOCUS demands of the columns of a row together, and of the rows of a file together.

Own rules, written from the specification; each is for the rows whose columns are there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Final

from billing.domain.exports.focus import DECIMAL_DIGITS, VERSIONS

Row = Mapping[str, str | None]
_EXACT_DIGITS: Final = 2 * DECIMAL_DIGITS


@dataclass(frozen=True)
class RowRule:
    """A rule of one row.

    Attributes:
        column: Which one a finding names.
        holds: Of a row whose values are each right.
        remedy: What is wrong, and what to write.
        since: The first version with it.
        until: The last one.
    """

    column: str
    holds: Callable[[Row], bool]
    remedy: str
    since: str = VERSIONS[0]
    until: str = VERSIONS[-1]


@dataclass(frozen=True)
class PairRule:
    """A rule of all rows: one value of `keys` goes with one value of `column`.

    Attributes:
        is_unique: Whether a value of `keys` may be in one row only.
    """

    keys: tuple[str, ...]
    column: str
    remedy: str
    is_unique: bool = False


def _is_correction(row: Row) -> bool:
    return row.get("ChargeClass") == "Correction"


def _is_priced(row: Row) -> bool:
    return row.get("ChargeCategory") in {"Usage", "Purchase"} and not _is_correction(row)


def _is_after(end: str, start: str) -> Callable[[Row], bool]:
    return lambda row: (row.get(end) or "") > (row.get(start) or "")


def _is_product(cost: str, price: str) -> Callable[[Row], bool]:
    def holds(row: Row) -> bool:
        unit_price, quantity = row.get(price), row.get("PricingQuantity")
        if _is_correction(row) or unit_price is None or quantity is None:
            return True
        with localcontext() as context:
            context.prec = _EXACT_DIGITS
            return Decimal(row.get(cost) or 0) == Decimal(unit_price) * Decimal(quantity)

    return holds


def _needs(column: str) -> Callable[[Row], bool]:
    return lambda row: not _is_priced(row) or column not in row or row[column] is not None


def _is_null_of_tax(column: str) -> Callable[[Row], bool]:
    return lambda row: row.get("ChargeCategory") != "Tax" or row.get(column) is None


def _only_with(column: str, other: str) -> Callable[[Row], bool]:
    return lambda row: row.get(column) is None or row.get(other) is not None


def _exactly_with(column: str, other: str) -> Callable[[Row], bool]:
    return lambda row: (row.get(column) is None) == (row.get(other) is None)


def _is_from_zero(column: str) -> Callable[[Row], bool]:
    return lambda row: Decimal(row.get(column) or 0) >= 0


def _is_above_zero_unless_correction(column: str) -> Callable[[Row], bool]:
    return lambda row: _is_correction(row) or Decimal(row.get(column) or 0) >= 0


def _is_consumed_by_usage(row: Row) -> bool:
    return row.get("ConsumedQuantity") is None or row.get("ChargeCategory") == "Usage"


def _is_purchase_not_by_use(row: Row) -> bool:
    is_purchase = row.get("ChargeCategory") == "Purchase"
    return not is_purchase or row.get("ChargeFrequency") != "Usage-Based"


def _is_billed_by_its_provider(column: str) -> Callable[[Row], bool]:
    return lambda row: (
        row.get(column) == row.get("InvoiceIssuerName") or Decimal(row.get("BilledCost") or 0) == 0
    )


def _is_credit_at_list(row: Row) -> bool:
    if row.get("ChargeCategory") != "Credit" or _is_correction(row):
        return True
    return Decimal(row.get("ListCost") or 0) == Decimal(row.get("BilledCost") or 0)


ROW_RULES: Final = (
    *(
        RowRule(f"{period}PeriodEnd", _is_after(f"{period}PeriodEnd", f"{period}PeriodStart"), text)
        for period, text in (
            ("Billing", "It is not after BillingPeriodStart. Write the first moment after it."),
            ("Charge", "It is not after ChargePeriodStart. Write the first moment after it."),
        )
    ),
    *(
        RowRule(
            f"{name}Cost",
            _is_product(f"{name}Cost", f"{name}UnitPrice"),
            f"It is not {name}UnitPrice times PricingQuantity. Write the exact product.",
        )
        for name in ("List", "Contracted")
    ),
    *(
        RowRule(name, _needs(name), "Use and purchases need it. Give a value.")
        for name in ("ListUnitPrice", "ContractedUnitPrice", "PricingQuantity", "SkuId")
    ),
    *(
        RowRule(name, _is_null_of_tax(name), "Taxes have none. Leave it empty.")
        for name in (
            "ListUnitPrice",
            "ContractedUnitPrice",
            "PricingQuantity",
            "PricingCategory",
            "SkuId",
        )
    ),
    *(
        RowRule(name, _is_from_zero(name), "A price is not below zero. Put the sign on the cost.")
        for name in ("ListUnitPrice", "ContractedUnitPrice")
    ),
    *(
        RowRule(
            name,
            _is_above_zero_unless_correction(name),
            "Only a Correction is below zero. Set ChargeClass.",
        )
        for name in ("PricingQuantity", "ConsumedQuantity")
    ),
    *(
        RowRule(name, _exactly_with(name, other), f"It goes with {other}. Give both or none.")
        for name, other in (
            ("PricingUnit", "PricingQuantity"),
            ("ConsumedUnit", "ConsumedQuantity"),
            ("SubAccountType", "SubAccountId"),
            ("ResourceType", "ResourceId"),
            ("CommitmentDiscountType", "CommitmentDiscountId"),
            ("CommitmentDiscountUnit", "CommitmentDiscountQuantity"),
        )
    ),
    *(
        RowRule(name, _only_with(name, other), f"It needs {other}. Give both, or leave it empty.")
        for name, other in (
            ("SubAccountName", "SubAccountId"),
            ("SkuMeter", "SkuId"),
            ("SkuPriceId", "SkuId"),
            ("SkuPriceDetails", "SkuPriceId"),
            ("ResourceName", "ResourceId"),
            ("RegionName", "RegionId"),
            ("InvoiceDetailId", "InvoiceId"),
            ("CommitmentDiscountName", "CommitmentDiscountId"),
            ("CommitmentDiscountStatus", "CommitmentDiscountId"),
            ("AllocatedResourceId", "AllocatedMethodId"),
            ("AllocatedMethodDetails", "AllocatedMethodId"),
            ("AllocatedResourceName", "AllocatedResourceId"),
        )
    ),
    RowRule(
        "ConsumedQuantity", _is_consumed_by_usage, "Only Usage consumes. Leave both columns empty."
    ),
    RowRule(
        "ChargeFrequency",
        _is_purchase_not_by_use,
        "A Purchase is One-Time or Recurring. Use one of them.",
    ),
    RowRule("ListCost", _is_credit_at_list, "A Credit has its BilledCost. Write the same."),
    *(
        RowRule(
            name,
            _is_billed_by_its_provider(name),
            "It bills nothing unless it is InvoiceIssuerName. Write the same, or BilledCost 0.",
            until="1.3",
        )
        for name in ("ProviderName", "PublisherName")
    ),
)
PAIR_RULES: Final = (
    PairRule(("ServiceName",), "ServiceCategory", "A service has one category. Use the first."),
    PairRule(("SkuPriceId",), "SkuId", "A price has one SKU. Use the first."),
    PairRule(("InvoiceId",), "BillingCurrency", "A document has one currency. Use the first."),
    PairRule(("InvoiceId",), "InvoiceIssuerName", "A document has one issuer. Use the first."),
    PairRule(("SubAccountId",), "BillingAccountId", "A project has one payer. Use the first."),
)
DETAIL_RULES: Final = (
    PairRule(
        ("InvoiceId", "InvoiceDetailId"),
        "InvoiceDetailId",
        "The line was there before. Give each its own id.",
        is_unique=True,
    ),
    PairRule(("InvoiceId",), "BillingCurrency", "A document has one currency. Use the first."),
)
