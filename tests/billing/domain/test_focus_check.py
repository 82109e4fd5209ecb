"""The checker finds what is planted, names row, column and remedy, and finds nothing else."""

from collections.abc import Mapping

import pytest

from billing.domain.exports.focus import FocusDataset, columns_in
from billing.domain.exports.focus_check import check_focus, dataset_of, version_of
from billing.domain.exports.focus_tables import FOCUS_COLUMNS

USAGE = {
    "BillingAccountId": "a1",
    "BillingAccountName": "Acme",
    "BillingCurrency": "EUR",
    "BillingPeriodStart": "2026-10-01T00:00:00Z",
    "BillingPeriodEnd": "2026-11-01T00:00:00Z",
    "ChargePeriodStart": "2026-10-01T00:00:00Z",
    "ChargePeriodEnd": "2026-10-01T01:00:00Z",
    "ChargeCategory": "Usage",
    "ChargeFrequency": "Usage-Based",
    "BilledCost": "0.6666666666",
    "EffectiveCost": "0.6666666666",
    "ListCost": "0.6666666666",
    "ContractedCost": "0.6666666666",
    "ListUnitPrice": "2.0",
    "ContractedUnitPrice": "2.0",
    "PricingQuantity": "0.3333333333",
    "PricingUnit": "Unit-Hours",
    "PricingCategory": "Standard",
    "ConsumedQuantity": "0.3333333333",
    "ConsumedUnit": "Unit-Hours",
    "SkuId": "gpu-unit-small",
    "SkuPriceId": "gpu-unit-small/H100",
    "SkuPriceDetails": '{"InstanceSeries": "H100"}',
    "ServiceCategory": "AI and Machine Learning",
    "ServiceName": "GPU Platform",
    "InvoiceIssuerName": "IT",
    "ProviderName": "IT",
    "PublisherName": "IT",
    "InvoiceId": "GL-1",
    "SubAccountId": "p1",
    "SubAccountName": "LLM",
    "SubAccountType": "Project",
    "Tags": '{"gpu-ledger/user": "carol"}',
}
TAX = {
    "ChargeCategory": "Tax",
    "ChargeFrequency": "One-Time",
    **dict.fromkeys(
        (
            "ListUnitPrice",
            "ContractedUnitPrice",
            "PricingQuantity",
            "PricingUnit",
            "PricingCategory",
            "ConsumedQuantity",
            "ConsumedUnit",
            "SkuId",
            "SkuPriceId",
            "SkuPriceDetails",
        )
    ),
}
HEADER = tuple(
    column.name
    for column in columns_in(FOCUS_COLUMNS[FocusDataset.COST_AND_USAGE], "1.2")
    if column.name in USAGE or column.name in {"ChargeClass", "ChargeDescription"}
)
PLANTED: list[tuple[str, dict[str, str | None]]] = [
    ("ListCost", {"ListCost": "0.67"}),
    ("ContractedCost", {"ContractedCost": "999"}),
    ("ChargeCategory", {"ChargeCategory": "GPU"}),
    ("ChargePeriodStart", {"ChargePeriodStart": "2026-10-01 00:00:00"}),
    ("ChargePeriodStart", {"ChargePeriodStart": "2026-13-01T00:00:00Z"}),
    ("ChargePeriodEnd", {"ChargePeriodEnd": "2026-10-01T00:00:00Z"}),
    ("BillingCurrency", {"BillingCurrency": "EURO"}),
    ("BilledCost", {"BilledCost": "1,000.00"}),
    ("BilledCost", {"BilledCost": None}),
    ("PricingUnit", {"PricingUnit": "gpu_hour"}),
    ("SkuId", {"SkuId": None, "SkuPriceId": None, "SkuPriceDetails": None}),
    ("InvoiceId", {"InvoiceId": "N/A"}),
    ("Tags", {"Tags": '{"user": {"name": "carol"}}'}),
    ("ProviderName", {"ProviderName": "Cloud"}),
    ("ServiceCategory", {"ServiceCategory": "Compute"}),
    ("SkuId", {**TAX, "SkuId": "gpu-unit-small"}),
    ("SubAccountType", {"SubAccountType": None}),
    (
        "PricingQuantity",
        {
            "PricingQuantity": "-1.0",
            "ListCost": "-2.0",
            "ContractedCost": "-2.0",
        },
    ),
]


def findings(*changes: Mapping[str, str | None]) -> list[tuple[int, str]]:
    """Return row and column of each finding in a file of a right row and changed ones."""
    empty = dict.fromkeys(HEADER)
    rows = [{**empty, **USAGE}, *({**empty, **USAGE, **change} for change in changes)]
    return [(one.row, one.column) for one in check_focus(HEADER, rows, version="1.2")]


def test_a_right_file_has_no_findings() -> None:
    correction = {"ChargeClass": "Correction", "PricingQuantity": "-1.0"}

    assert findings(TAX, correction) == []
    assert (dataset_of(HEADER), version_of(HEADER)) == (FocusDataset.COST_AND_USAGE, "1.2")


@pytest.mark.parametrize(("column", "change"), PLANTED)
def test_a_planted_error_is_found(column: str, change: dict[str, str | None]) -> None:
    assert findings({}, change) == [(2 + 1, column)]


def test_every_error_of_a_file_is_found_in_its_row() -> None:
    found = findings(*(change for _, change in PLANTED))

    assert found == [(row, column) for row, (column, _) in enumerate(PLANTED, 2)]


def test_columns_are_checked_too() -> None:
    header = ["x_Own", *HEADER[1:], "GpuHours", HEADER[-1]]

    found = [str(one) for one in check_focus(header, [], version="1.3")]

    assert "header, BillingAccountId: FOCUS 1.3 demands it. Add the column." in found
    assert "header, HostProviderName: FOCUS 1.3 demands it. Add the column." in found
    assert "header, GpuHours: FOCUS 1.3 has no such column. Begin its name with x_." in found
    assert f"header, {HEADER[-1]}: It is there twice. Keep one." in found
    assert f"header, {HEADER[1]}: It is behind own columns. Put these last." in found
