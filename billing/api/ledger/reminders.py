"""Endpoints /api/v1/reminders/ and reminder-stops/: which were sent, and where they are stopped."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    READ_INVOICE,
    WRITE_PAYMENT,
    access_invoice,
    access_reminder,
    access_reminder_stop,
    reminder_stops_visible_to,
    reminders_visible_to,
)
from billing.api.money import MoneyField
from billing.models import Reminder, ReminderStop
from billing.services.ledger.reminders import continue_reminders, stop_reminders
from tenants.api.filters import IntegerFilter, StrictFilterSet, UpdatedFromFilter
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class ReminderSerializer(serializers.ModelSerializer[Reminder]):
    """That a document was overdue at a level; `open_amount` is of that day."""

    document = serializers.UUIDField(source="document_id", read_only=True)
    reference = serializers.CharField(source="document.reference", read_only=True)
    open_amount = MoneyField(currency_source="document.currency")

    class Meta:
        model = Reminder
        fields = (
            "id",
            "document",
            "reference",
            "level",
            "days_overdue",
            "open_amount",
            "reminded_on",
        )
        read_only_fields = fields


class ReminderFilter(StrictFilterSet):
    """Which reminders are listed."""

    organization = filters.UUIDFilter(field_name="document__organization_id")
    document = filters.UUIDFilter(field_name="document_id")
    level = IntegerFilter()
    updated_from = UpdatedFromFilter(
        "created_at", help_text="Only reminders made at this time or since."
    )


class ReminderViewSet(ReadingViewSet):
    """Reminders, newest first."""

    serializer_class = ReminderSerializer
    filterset_class = ReminderFilter
    ordering = ("-reminded_on", "pk")

    def get_queryset(self) -> QuerySet[Reminder]:
        """Return the reminders of the organizations whose bills the caller reads."""
        return reminders_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Reminder:
        """Return one reminder."""
        return access_reminder(self.actor, pk)


class ReminderStopSerializer(serializers.ModelSerializer[ReminderStop]):
    """A document that is not reminded of, until `continued_at`."""

    document = serializers.UUIDField(source="document_id", read_only=True)
    reference = serializers.CharField(source="document.reference", read_only=True)

    class Meta:
        model = ReminderStop
        fields = (
            "id",
            "document",
            "reference",
            "reason",
            "stopped_by",
            "stopped_at",
            "continue_reason",
            "continued_by",
            "continued_at",
        )
        read_only_fields = fields


class ContinueInputSerializer(StrictSerializer):
    """Why."""

    reason = serializers.CharField(max_length=500)


class ReminderStopInputSerializer(ContinueInputSerializer):
    """Of which document, and why."""

    document = serializers.UUIDField()


class ReminderStopFilter(StrictFilterSet):
    """Which stops are listed."""

    organization = filters.UUIDFilter(field_name="document__organization_id")
    document = filters.UUIDFilter(field_name="document_id")
    is_continued = filters.BooleanFilter(
        field_name="continued_at", lookup_expr="isnull", exclude=True
    )
    updated_from = UpdatedFromFilter(
        "stopped_at",
        "continued_at",
        help_text="Only stops made or ended at this time or since.",
    )


class ReminderStopViewSet(ReadingViewSet):
    """Documents that are not reminded of, newest first."""

    serializer_class = ReminderStopSerializer
    filterset_class = ReminderStopFilter
    ordering = ("-stopped_at", "pk")

    def get_queryset(self) -> QuerySet[ReminderStop]:
        """Return those of the organizations whose bills the caller reads."""
        return reminder_stops_visible_to(self.actor)

    def get_one(self, pk: UUID) -> ReminderStop:
        """Return one stop."""
        return access_reminder_stop(self.actor, pk, READ_INVOICE)

    @extend_schema(request=ReminderStopInputSerializer, responses={201: ReminderStopSerializer})
    def create(self, request: Request) -> Response:
        """Remind of a final invoice or debit note no more."""
        fields = self.read(ReminderStopInputSerializer, request)
        document = access_invoice(self.actor, fields["document"], WRITE_PAYMENT)
        made = stop_reminders(
            document_id=document.pk, reason=fields["reason"], actor=self.actor, at=self.at
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=ContinueInputSerializer)
    @action(detail=True, methods=["post"], url_path="continue")
    def continue_(self, request: Request, pk: UUID) -> Response:
        """Remind of the document again, from its next level on."""
        stop = access_reminder_stop(self.actor, pk, WRITE_PAYMENT)
        fields = self.read(ContinueInputSerializer, request)
        done = continue_reminders(
            stop_id=stop.pk, reason=fields["reason"], actor=self.actor, at=self.at
        )
        return self.answer(done)
