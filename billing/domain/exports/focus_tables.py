"""The tables of FOCUS: the writer, the checker and docs/reference/focus.md are made of them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from billing.domain.exports.focus import ColumnType, FocusColumn, FocusDataset, Level
from billing.domain.exports.focus_columns import (
    ACCOUNT,
    CHARGE,
    COST_AND_USAGE,
    ONE_CURRENCY,
    PRODUCT,
)

_FIRST: Final = "1.4"
_string = partial(FocusColumn, type=ColumnType.STRING, since=_FIRST)
_decimal = partial(FocusColumn, type=ColumnType.DECIMAL, since=_FIRST)
_time = partial(FocusColumn, type=ColumnType.DATE_TIME, since=_FIRST)
_json = partial(FocusColumn, type=ColumnType.JSON, since=_FIRST)
_optional_string = partial(_string, level=Level.CONDITIONAL, is_nullable=True)
_optional_decimal = partial(_decimal, level=Level.CONDITIONAL, is_nullable=True)
_OF_ACCOUNTS: Final = {"BillingAccountName", "BillingAccountType"}
_INVOICE_DETAIL: Final = (
    *(replace(column, since=_FIRST) for column in ACCOUNT if column.name not in _OF_ACCOUNTS),
    *(
        replace(column, since=_FIRST)
        for column in (*CHARGE, *PRODUCT)
        if column.name in {"BilledCost", "ChargeCategory", "InvoiceIssuerName"}
    ),
    _string(name="InvoiceId", sql="r.invoice", text="Number of the document."),
    _string(
        name="InvoiceDetailId",
        sql="r.detail_id",
        text="Id of the line, or that of the document with `:tax`.",
    ),
    _string(
        name="InvoiceDetailDescription", sql="r.description", text="As printed.", is_nullable=True
    ),
    _json(
        name="InvoiceDetailGrain",
        sql="NULL",
        text="None: rows of CostAndUsage have the InvoiceDetailId.",
        is_nullable=True,
    ),
    _time(name="InvoiceDetailCreated", sql="r.drafted_at", text="When drafted."),
    _time(name="InvoiceDetailLastUpdated", sql="r.issued_at", text="When issued."),
    _string(
        name="InvoiceIssueStatus",
        sql="'Issued'",
        text="`Issued`: a later document voids, and has rows of its own.",
        allowed=("Open", "Issued", "Voided"),
    ),
    _time(name="InvoiceIssueDate", sql="r.issued_at", text="When issued.", is_nullable=True),
    _time(
        name="PaymentDueDate",
        sql="r.due_on",
        text="The day it is due on; none of credit notes.",
        is_nullable=True,
    ),
    _string(
        name="PaymentTerms",
        sql="r.payment_terms",
        text="`Net` and the days; `Credit` of credit notes.",
    ),
    _string(
        name="ReferenceInvoiceId",
        sql="r.reference",
        text="Number of the corrected document, or its own.",
    ),
    _optional_string(name="PurchaseOrderNumber", sql="r.purchase_order", text="Of the document."),
    *(
        _optional_string(name=name, sql="", text=ONE_CURRENCY)
        for name in ("PaymentCurrency", "PaymentCurrencyInvoiceDetailId")
    ),
    _optional_decimal(name="PaymentCurrencyBilledCost", sql="", text=ONE_CURRENCY),
)
_BILLING_PERIOD: Final = (
    *(replace(column, since=_FIRST) for column in ACCOUNT if column.name.startswith("BillingP")),
    _time(name="BillingPeriodCreated", sql="r.created_at", text="When opened."),
    _time(name="BillingPeriodLastUpdated", sql="r.updated_at", text="When its state changed last."),
    _string(
        name="BillingPeriodStatus",
        sql="r.status",
        text="`Closed` once it is closed for every organization.",
        allowed=("Open", "Closed"),
    ),
    _string(name="InvoiceIssuerName", sql="r.issuer", text="Name of the issuer."),
)
FOCUS_COLUMNS: Final[Mapping[FocusDataset, tuple[FocusColumn, ...]]] = {
    FocusDataset.COST_AND_USAGE: COST_AND_USAGE,
    FocusDataset.INVOICE_DETAIL: _INVOICE_DETAIL,
    FocusDataset.BILLING_PERIOD: _BILLING_PERIOD,
}
