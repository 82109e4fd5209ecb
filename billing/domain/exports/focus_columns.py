"""The columns of CostAndUsage; see `billing.domain.exports.focus_tables`."""

from functools import partial
from typing import Final

from billing.domain.exports.focus import (
    QUANTITY_DECIMALS,
    ColumnType,
    FocusColumn,
    Level,
)

_string = partial(FocusColumn, type=ColumnType.STRING)
_decimal = partial(FocusColumn, type=ColumnType.DECIMAL)
_time = partial(FocusColumn, type=ColumnType.DATE_TIME)
_json = partial(FocusColumn, type=ColumnType.JSON)
_optional_string = partial(_string, level=Level.CONDITIONAL, is_nullable=True)
_optional_decimal = partial(_decimal, level=Level.CONDITIONAL, is_nullable=True)
_optional_json = partial(_json, level=Level.CONDITIONAL, is_nullable=True)
_NO_COMMITMENTS: Final = "There are no commitments."
_NO_RESOURCES: Final = "A row is of all pods of an hour; `explain` leads to their devices."
_NO_SPLIT: Final = "Shares of a device are sold, not split afterwards."
ONE_CURRENCY: Final = "Prices are in the currency of the bill."
CHARGE_CATEGORIES: Final = ("Usage", "Purchase", "Tax", "Credit", "Adjustment")
SERVICE_CATEGORIES: Final = (
    "AI and Machine Learning",
    "Analytics",
    "Business Applications",
    "Compute",
    "Databases",
    "Developer Tools",
    "Multicloud",
    "Identity",
    "Integration",
    "Internet of Things",
    "Management and Governance",
    "Media",
    "Migration",
    "Mobile",
    "Networking",
    "Security",
    "Storage",
    "Web",
    "Other",
)

ACCOUNT: Final = (
    _string(name="BillingAccountId", sql="r.organization_id", text="Id of the organization."),
    _string(
        name="BillingAccountName",
        sql="r.organization_name",
        text="Its name.",
        is_nullable=True,
    ),
    _string(
        name="BillingAccountType",
        sql="'Organization'",
        text="`Organization`.",
        level=Level.CONDITIONAL,
    ),
    _string(
        name="BillingCurrency",
        sql="r.currency",
        text="Currency of the document, or of the charge before there is one.",
    ),
    _time(
        name="BillingPeriodStart",
        sql="r.period_begin",
        text="Begin of the month that bills the row, in the organization's time zone.",
    ),
    _time(name="BillingPeriodEnd", sql="r.period_end", text="Its end, which is not part of it."),
)
CHARGE: Final = (
    _time(
        name="ChargePeriodStart",
        sql="r.charge_begin",
        text="The hour of use; of what has none, the month it is about.",
    ),
    _time(name="ChargePeriodEnd", sql="r.charge_end", text="Its end, which is not part of it."),
    _string(
        name="ChargeCategory",
        sql="r.category",
        text="`Usage`; `Credit` for discounts of tiers and credits for broken hardware; "
        "`Adjustment` for minimum charges and for rounding; `Tax`.",
        allowed=CHARGE_CATEGORIES,
    ),
    _string(
        name="ChargeClass",
        sql="r.class",
        text="`Correction` where an earlier month is billed or corrected.",
        is_nullable=True,
        allowed=("Correction",),
    ),
    _string(
        name="ChargeDescription",
        sql="r.description",
        text="What it is for.",
        is_nullable=True,
    ),
    _string(
        name="ChargeFrequency",
        sql="CASE r.category WHEN 'Usage' THEN 'Usage-Based' ELSE 'One-Time' END",
        text="`Usage-Based` for use.",
        level=Level.RECOMMENDED,
        allowed=("One-Time", "Recurring", "Usage-Based"),
    ),
    _decimal(
        name="BilledCost",
        sql="r.billed",
        text="What the row adds to its document.",
    ),
    _decimal(name="EffectiveCost", sql="r.billed", text="The same: nothing is prepaid."),
    _decimal(
        name="ListCost",
        sql="r.list_cost",
        text="List price times quantity. Of a tax, in the proportion of list to net. Of what has "
        "no quantity, and of later documents of a month, what is billed.",
    ),
    _decimal(
        name="ContractedCost",
        sql="r.contracted",
        text="Price times quantity; otherwise what is billed.",
    ),
    _optional_decimal(
        name="ListUnitPrice",
        sql="r.list_unit_price",
        text="Per unit-hour: of the base book where the price is a discount on one.",
        decimals=QUANTITY_DECIMALS,
    ),
    _optional_decimal(
        name="ContractedUnitPrice",
        sql="r.unit_price",
        text="Per unit-hour, as charged.",
        decimals=QUANTITY_DECIMALS,
    ),
    _decimal(
        name="PricingQuantity",
        sql="r.quantity",
        text="Unit-hours, rounded to ten digits; `x_UnitSeconds` is exact.",
        is_nullable=True,
        decimals=QUANTITY_DECIMALS,
    ),
    _string(
        name="PricingUnit",
        sql="r.unit",
        text="`Unit-Hours`.",
        is_nullable=True,
        is_unit=True,
    ),
    _optional_string(
        name="PricingCategory",
        sql="r.pricing_category",
        text="`Dynamic` for burst units, else `Standard`.",
        allowed=("Standard", "Dynamic", "Committed", "Other"),
    ),
    _string(name="PricingCurrency", sql="", text=ONE_CURRENCY, level=Level.CONDITIONAL),
    *(
        _optional_decimal(name=name, sql="", text=ONE_CURRENCY)
        for name in (
            "PricingCurrencyContractedUnitPrice",
            "PricingCurrencyEffectiveCost",
            "PricingCurrencyListUnitPrice",
        )
    ),
    _optional_decimal(
        name="ConsumedQuantity",
        sql="CASE r.category WHEN 'Usage' THEN r.quantity END",
        text="As PricingQuantity.",
        decimals=QUANTITY_DECIMALS,
    ),
    _optional_string(
        name="ConsumedUnit",
        sql="CASE r.category WHEN 'Usage' THEN r.unit END",
        text="`Unit-Hours`.",
        is_unit=True,
    ),
)
PRODUCT: Final = (
    _optional_string(name="SkuId", sql="r.sku_id", text="`gpu-unit-` and the size."),
    _optional_string(
        name="SkuPriceId",
        sql="r.sku_price_id",
        text="Size and price group; it stays the same when the price changes.",
    ),
    _optional_string(
        name="SkuMeter",
        sql="CASE WHEN r.sku_id IS NOT NULL THEN 'GPU Unit Hours' END",
        text="`GPU Unit Hours`.",
    ),
    _optional_json(
        name="SkuPriceDetails",
        sql="r.sku_details",
        text="Model (`InstanceSeries`), size and price group.",
    ),
    _string(
        name="ServiceCategory",
        sql="'AI and Machine Learning'",
        text="`AI and Machine Learning`.",
        allowed=SERVICE_CATEGORIES,
    ),
    _string(
        name="ServiceSubcategory",
        sql="'AI Platforms'",
        text="`AI Platforms`.",
        level=Level.RECOMMENDED,
    ),
    _string(name="ServiceName", sql="'GPU Platform'", text="`GPU Platform`."),
    *(
        _string(name=name, sql="r.issuer", text="Name of the issuer.", since="1.3")
        for name in ("ServiceProviderName", "HostProviderName")
    ),
    _string(name="InvoiceIssuerName", sql="r.issuer", text="Name of the issuer."),
    *(
        _string(name=name, sql="r.issuer", text="Name of the issuer.", until="1.3")
        for name in ("ProviderName", "PublisherName")
    ),
    _optional_string(
        name="InvoiceId", sql="r.invoice", text="Number of the document; none before it is final."
    ),
    _optional_string(
        name="InvoiceDetailId",
        sql="r.detail_id",
        text="Id of the line, or that of the document with `:tax`.",
        since="1.4",
    ),
    _optional_string(name="SubAccountId", sql="r.project_id", text="Id of the project."),
    _optional_string(name="SubAccountName", sql="r.project_name", text="Its name."),
    _optional_string(
        name="SubAccountType",
        sql="CASE WHEN r.project_id IS NOT NULL THEN 'Project' END",
        text="`Project`.",
    ),
    _optional_json(
        name="Tags",
        sql="r.tags",
        text="`gpu-ledger/project`, `gpu-ledger/cost-center` and, of use, `gpu-ledger/user`.",
    ),
)
_NOT_WRITTEN: Final = (
    *(
        _optional_string(name=name, sql="", text=_NO_RESOURCES)
        for name in ("ResourceId", "ResourceName", "ResourceType")
    ),
    *(
        _optional_string(name=name, sql="", text="Clusters are in `x_Cluster`.")
        for name in ("RegionId", "RegionName", "AvailabilityZone")
    ),
    *(
        _optional_string(name=name, sql="", text=_NO_COMMITMENTS, allowed=allowed)
        for name, allowed in (
            ("CommitmentDiscountId", ()),
            ("CommitmentDiscountName", ()),
            ("CommitmentDiscountType", ()),
            ("CommitmentDiscountCategory", ("Spend", "Usage")),
            ("CommitmentDiscountStatus", ("Used", "Unused")),
            ("CapacityReservationId", ()),
            ("CapacityReservationStatus", ("Used", "Unused")),
        )
    ),
    _optional_decimal(name="CommitmentDiscountQuantity", sql="", text=_NO_COMMITMENTS),
    _optional_string(name="CommitmentDiscountUnit", sql="", text=_NO_COMMITMENTS, is_unit=True),
    _optional_json(
        name="CommitmentProgramEligibilityDetails", sql="", text=_NO_COMMITMENTS, since="1.4"
    ),
    *(
        _optional_string(name=name, sql="", text=_NO_SPLIT, since="1.3")
        for name in ("AllocatedMethodId", "AllocatedResourceId", "AllocatedResourceName")
    ),
    *(
        _optional_json(name=name, sql="", text=_NO_SPLIT, since="1.3")
        for name in ("AllocatedMethodDetails", "AllocatedTags")
    ),
    _optional_json(name="ContractApplied", sql="", text=_NO_COMMITMENTS, since="1.3"),
)
_OWN: Final = (
    _optional_string(name="x_Cluster", sql="r.cluster", text="Slug of the cluster."),
    _optional_string(
        name="x_PriceGroup",
        sql="r.price_group",
        text="Model and share of a device, such as H100/1g.10gb.",
    ),
    FocusColumn(
        name="x_UnitSeconds",
        type=ColumnType.INTEGER,
        sql="r.unit_seconds",
        text="The exact quantity.",
        level=Level.CONDITIONAL,
        is_nullable=True,
    ),
)
COST_AND_USAGE: Final = (*ACCOUNT, *CHARGE, *PRODUCT, *_NOT_WRITTEN, *_OWN)
