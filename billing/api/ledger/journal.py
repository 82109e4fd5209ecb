"""Endpoints of the journal: its entries, and the accounting months that are closed."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    WRITE_JOURNAL,
    access_accounting_month,
    access_journal_entry,
    accounting_months_visible_to,
    journal_visible_to,
)
from billing.api.money import MoneyField
from billing.models import AccountingMonth, JournalEntry, Posting
from billing.services.ledger.journal import accrue_unbilled, close_accounting_month
from tenants.access import require_capability
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class PostingSerializer(serializers.ModelSerializer[Posting]):
    """An amount on an account: debit above zero, credit below."""

    account = serializers.CharField(source="account_id", read_only=True)
    account_number = serializers.CharField(source="account.number", read_only=True)
    amount = MoneyField(currency_source="entry.currency")

    class Meta:
        model = Posting
        fields = ("account", "account_number", "amount")
        read_only_fields = fields


class JournalEntrySerializer(serializers.ModelSerializer[JournalEntry]):
    """One event of the general ledger; its postings add up to zero."""

    organization = serializers.UUIDField(source="organization_id", read_only=True, allow_null=True)
    postings = PostingSerializer(many=True, read_only=True)

    class Meta:
        model = JournalEntry
        fields = (
            "id",
            "event",
            "source_key",
            "organization",
            "currency",
            "document_on",
            "posting_on",
            "reason",
            "postings",
            "posted_by",
            "posted_at",
        )
        read_only_fields = fields


class JournalEntryFilter(StrictFilterSet):
    """Which entries are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    event = filters.ChoiceFilter(choices=JournalEntry.Event.choices)
    posting_from = filters.DateFilter(field_name="posting_on", lookup_expr="gte")
    posting_before = filters.DateFilter(field_name="posting_on", lookup_expr="lt")
    updated_from = UpdatedFromFilter(
        "posted_at", help_text="Only entries posted at this time or since; an entry never changes."
    )


class JournalEntryViewSet(ReadingViewSet):
    """Entries of the journal, newest first."""

    serializer_class = JournalEntrySerializer
    filterset_class = JournalEntryFilter
    ordering = ("-posting_on", "pk")
    orderings = ("posted_at",)

    def get_queryset(self) -> QuerySet[JournalEntry]:
        """Return the entries the caller sees."""
        return journal_visible_to(self.actor)

    def get_one(self, pk: UUID) -> JournalEntry:
        """Return one entry."""
        return access_journal_entry(self.actor, pk)


class AccountingMonthSerializer(serializers.ModelSerializer[AccountingMonth]):
    """A closed month of the general ledger."""

    class Meta:
        model = AccountingMonth
        fields = ("id", "label", "closed_at", "closed_by")
        read_only_fields = fields


class AccountingMonthInputSerializer(StrictSerializer):
    """Which month."""

    label = serializers.CharField(  # type: ignore[assignment]
        max_length=7, help_text='Year and month, such as "2026-10".'
    )


class AccruedEntriesSerializer(serializers.Serializer[dict[str, int]]):
    """How many entries an accrual posted."""

    entries = serializers.IntegerField()


class AccountingMonthViewSet(ReadingViewSet):
    """Closed months of the general ledger, newest first."""

    serializer_class = AccountingMonthSerializer
    ordering = ("-label", "pk")

    def get_queryset(self) -> QuerySet[AccountingMonth]:
        """Return the months, to readers of the journal."""
        return accounting_months_visible_to(self.actor)

    def get_one(self, pk: UUID) -> AccountingMonth:
        """Return one month."""
        return access_accounting_month(self.actor, pk)

    @extend_schema(
        request=AccountingMonthInputSerializer, responses={201: AccountingMonthSerializer}
    )
    @idempotent()
    def create(self, request: Request) -> Response:
        """Close a month with all before it: no entry is dated in it from then on."""
        require_capability(self.actor, WRITE_JOURNAL)
        fields = self.read(AccountingMonthInputSerializer, request)
        closed = close_accounting_month(label=fields["label"], actor=self.actor, at=self.at)
        return self.answer(closed, status_code=status.HTTP_201_CREATED)

    @extend_schema(
        request=AccountingMonthInputSerializer, responses={200: AccruedEntriesSerializer}
    )
    @action(detail=False, methods=["post"])
    @idempotent()
    def accrue(self, request: Request) -> Response:
        """Post what no document had billed by the end of a month, and its reversal."""
        require_capability(self.actor, WRITE_JOURNAL)
        fields = self.read(AccountingMonthInputSerializer, request)
        posted = accrue_unbilled(label=fields["label"], actor=self.actor, at=self.at)
        return Response({"entries": posted})
