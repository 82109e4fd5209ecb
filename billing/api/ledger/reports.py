"""Endpoints /api/v1/reports/ageing/ and statement/: open items by age, and accounts of tenants."""

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import READ_INVOICE, access_payer
from billing.adapters.documents import render_statement, render_table
from billing.adapters.terms import invoice_terms, logo_on
from billing.api.attachments import CSV, PDF, attachment
from billing.api.money import MoneyTextField
from billing.domain.documents.document import amount_text
from billing.domain.ledger.errors import StatementTooLongError
from billing.domain.ledger.statement import AccountStatement
from billing.domain.money import Money
from billing.selectors.ledger.reports import (
    AGEING_COLUMNS,
    LINES_MAX,
    AgeingRow,
    ageing,
    statement,
)
from billing.services.composing import printed_statement
from tenants.access import is_platform_wide, organizations_visible_to
from tenants.api.conditional import may_conflict
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet
from tenants.models import Organization

STATEMENT_COLUMNS = ("dated_on", "event", "reference", "amount", "balance", "currency")


class AgeingQuerySerializer(StrictSerializer):
    """At the end of which day, and whose."""

    on = serializers.DateField(required=False, default=None, help_text="Today without it.")
    organization = serializers.UUIDField(required=False, default=None)


class AgeingRowSerializer(serializers.Serializer[AgeingRow]):
    """What an organization owes in a currency, by days overdue; `credit` is below zero."""

    organization = serializers.CharField()
    currency = serializers.CharField()
    not_due = MoneyTextField()
    days_1_to_30 = MoneyTextField()
    days_31_to_60 = MoneyTextField()
    days_61_to_90 = MoneyTextField()
    days_over_90 = MoneyTextField()
    credit = MoneyTextField()
    total = MoneyTextField()


class AgeingSerializer(serializers.Serializer[object]):
    """Open items at the end of a day."""

    on = serializers.DateField()
    results = AgeingRowSerializer(many=True)


class AgeingViewSet(LedgerViewSet):
    """What organizations owe, by days overdue."""

    @extend_schema(
        operation_id="get_ageing_report",
        parameters=[AgeingQuerySerializer],
        responses=AgeingSerializer,
    )
    def report(self, request: Request) -> Response:
        """Return open items of what the caller reaches."""
        on, rows = self._rows(request)
        return Response(AgeingSerializer({"on": on, "results": rows}).data)

    @extend_schema(
        operation_id="download_ageing_report",
        parameters=[AgeingQuerySerializer],
        responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR)},
    )
    def csv(self, request: Request) -> HttpResponse:
        """Return the same as CSV."""
        on, rows = self._rows(request)
        return _csv(AGEING_COLUMNS, rows, filename=f"ageing-{on}.csv")

    def _rows(self, request: Request) -> tuple[date, list[dict[str, str]]]:
        query = AgeingQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        on = asked["on"] or self.at.date()
        rows = ageing(on=on, organization_ids=self._reached(asked["organization"]))
        return on, [_ageing_texts(row) for row in rows]

    def _reached(self, organization_id: UUID | None) -> list[UUID] | None:
        """Return the organizations whose bills the caller reads; None for all."""
        if is_platform_wide(self.actor, READ_INVOICE):
            return None if organization_id is None else [organization_id]
        seen = organizations_visible_to(self.actor, READ_INVOICE).values_list("pk", flat=True)
        return [pk for pk in seen if organization_id in {None, pk}]


class StatementQuerySerializer(StrictSerializer):
    """Whose account, in which currency, from when to when."""

    organization = serializers.UUIDField()
    currency = serializers.CharField(required=False, default="", max_length=3)
    to = serializers.DateField(help_text="End, excluded.")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields; `from` is a word of Python's own."""
        return {"from": serializers.DateField(help_text="First day."), **super().get_fields()}


class StatementLineSerializer(serializers.Serializer[dict[str, str]]):
    """A document, above zero, or a payment, below, and what is owed after it."""

    dated_on = serializers.CharField()
    event = serializers.CharField()
    reference = serializers.CharField()
    amount = MoneyTextField()
    balance = MoneyTextField()


class StatementSerializer(serializers.Serializer[object]):
    """Opening balance, documents and payments, and closing balance of an organization."""

    currency = serializers.CharField()
    opening = MoneyTextField()
    lines = StatementLineSerializer(many=True)
    closing = MoneyTextField()


class StatementViewSet(LedgerViewSet):
    """The account of an organization."""

    @extend_schema(
        operation_id="get_statement",
        parameters=[StatementQuerySerializer],
        responses=StatementSerializer,
    )
    def report(self, request: Request) -> Response:
        """Return opening balance, lines and closing balance."""
        _, made = self._statement(request)
        body = {
            "currency": made.currency,
            "opening": _text(made.opening, made.currency),
            "lines": _statement_texts(made),
            "closing": _text(made.closing, made.currency),
        }
        return Response(StatementSerializer(body).data)

    @extend_schema(
        operation_id="download_statement",
        parameters=[StatementQuerySerializer],
        responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR)},
    )
    def csv(self, request: Request) -> HttpResponse:
        """Return the lines as CSV, between opening and closing balance."""
        _, made = self._statement(request)
        ends = [
            {"event": name, "balance": _text(amount, made.currency), "currency": made.currency}
            for name, amount in (("opening", made.opening), ("closing", made.closing))
        ]
        rows = [ends[0], *_statement_texts(made), ends[1]]
        return _csv(STATEMENT_COLUMNS, rows, filename="statement.csv")

    @extend_schema(
        operation_id="download_statement_pdf",
        parameters=[StatementQuerySerializer],
        responses={(200, "application/pdf"): OpenApiResponse(OpenApiTypes.BINARY)},
    )
    @may_conflict
    def pdf(self, request: Request) -> HttpResponse:
        """Return the statement as PDF, in the language of the organization."""
        organization, made = self._statement(request)
        document = printed_statement(organization, made, terms=invoice_terms(), at=self.at)
        content = render_statement(document, logo=logo_on(document))
        name = f"statement-{organization.slug}-{made.begin_on}.pdf"
        return attachment(content, name, kind=PDF)

    def _statement(self, request: Request) -> tuple[Organization, AccountStatement]:
        """Return an organization and its account."""
        query = StatementQuerySerializer(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        asked = query.validated_data
        organization = access_payer(self.actor, asked["organization"], READ_INVOICE)
        made = statement(
            organization.pk,
            currency=Money.zero(asked["currency"] or organization.billing_currency).currency,
            begin_on=asked["from"],
            end_on=asked["to"],
        )
        if len(made.lines) > LINES_MAX:
            raise StatementTooLongError(f"There are more than {LINES_MAX} lines.", field="to")
        return organization, made


def _text(amount: Decimal, currency: str) -> str:
    return amount_text(Money(amount, currency))


def _ageing_texts(row: AgeingRow) -> dict[str, str]:
    amounts = {
        name: _text(getattr(row, name), row.currency)
        for name in AGEING_COLUMNS
        if name not in {"organization", "currency"}
    }
    return {"organization": row.organization, "currency": row.currency, **amounts}


def _statement_texts(made: AccountStatement) -> list[dict[str, str]]:
    return [
        {
            "dated_on": line.dated_on.isoformat(),
            "event": line.event,
            "reference": line.reference,
            "amount": _text(line.amount, made.currency),
            "balance": _text(line.balance, made.currency),
            "currency": made.currency,
        }
        for line in made.lines
    ]


def _csv(
    columns: tuple[str, ...], rows: Iterable[dict[str, str]], *, filename: str
) -> HttpResponse:
    content = render_table(columns, rows, numbers={"amount", "balance", *AGEING_COLUMNS[2:]})
    return attachment(content, filename, kind=CSV)
