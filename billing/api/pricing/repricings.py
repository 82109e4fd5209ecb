"""Endpoint /api/v1/repricings/: months charged at wrong prices, asked for and decided by people."""

from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    READ_PERIOD,
    WRITE_PRICE,
    access_period,
    access_repricing,
    repricings_visible_to,
)
from billing.api.money import MoneyField
from billing.models import Repricing, RepricingState
from billing.services.repricing import approve_repricing, reject_repricing, reprice_period
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

REASON_LENGTH_MAX = 2_000


class PriceChangeSerializer(serializers.Serializer[dict[str, object]]):
    """Unit-seconds of a project, size and group, the price charged and the right one."""

    project_id = serializers.UUIDField()
    project = serializers.CharField()
    size = serializers.CharField()
    price_group = serializers.CharField()
    unit_price = serializers.CharField()
    right_price = serializers.CharField()
    unit_seconds = serializers.IntegerField()


class RepricingSerializer(serializers.ModelSerializer[Repricing]):
    """What a month was charged at wrong prices, and what it costs at the published ones.

    `changes` is the preview. Posted, it is charged in a month that is open: see
    `charges/?repricing=`.
    """

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    period = serializers.UUIDField(source="period_id", read_only=True)
    before = MoneyField()
    after = MoneyField()
    changes = PriceChangeSerializer(many=True, read_only=True)

    class Meta:
        model = Repricing
        fields = (
            "id",
            "organization",
            "period",
            "state",
            "reason",
            "before",
            "after",
            "changes",
            "requested_by",
            "requested_at",
            "decided_by",
            "decided_at",
            "decision_note",
        )
        read_only_fields = fields


class RepricingInputSerializer(StrictSerializer):
    """Which month is repriced, and why."""

    period = serializers.UUIDField()
    reason = serializers.CharField(max_length=REASON_LENGTH_MAX)


class RepricingApprovalSerializer(StrictSerializer):
    """The note of an approval."""

    note = serializers.CharField(
        max_length=REASON_LENGTH_MAX, allow_blank=True, required=False, default=""
    )


class RepricingRejectionSerializer(StrictSerializer):
    """Why a repricing is turned down."""

    note = serializers.CharField(max_length=REASON_LENGTH_MAX)


class RepricingFilter(StrictFilterSet):
    """Which repricings are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    period = filters.UUIDFilter(field_name="period_id")
    state = filters.ChoiceFilter(choices=RepricingState.choices)
    updated_from = UpdatedFromFilter(
        "requested_at",
        "decided_at",
        help_text="Only repricings requested or decided at this time or since.",
    )


class RepricingViewSet(ReadingViewSet):
    """Repricings, newest first."""

    serializer_class = RepricingSerializer
    filterset_class = RepricingFilter
    ordering = ("-requested_at", "pk")

    def get_queryset(self) -> QuerySet[Repricing]:
        """Return the repricings of the organizations whose months the caller reads."""
        return repricings_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Repricing:
        """Return one repricing."""
        return access_repricing(self.actor, pk, READ_PERIOD)

    @extend_schema(request=RepricingInputSerializer, responses={201: RepricingSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Preview what a month costs at the published prices; posted at once without four eyes."""
        fields = self.read(RepricingInputSerializer, request)
        period = access_period(self.actor, fields["period"], WRITE_PRICE)
        made = reprice_period(
            period_id=period.pk,
            reason=fields["reason"],
            is_four_eyes=settings.FOUR_EYES,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=RepricingApprovalSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def approve(self, request: Request, pk: UUID) -> Response:
        """Reverse the wrong charges and make the right ones, in a month that is open."""
        note = self.read(RepricingApprovalSerializer, request)["note"]
        found = access_repricing(self.actor, pk, WRITE_PRICE)
        posted = approve_repricing(
            repricing_id=found.pk,
            note=note,
            is_four_eyes=settings.FOUR_EYES,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(posted)

    @extend_schema(request=RepricingRejectionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def reject(self, request: Request, pk: UUID) -> Response:
        """Turn a repricing down; the charges stay as they are."""
        note = self.read(RepricingRejectionSerializer, request)["note"]
        found = access_repricing(self.actor, pk, WRITE_PRICE)
        rejected = reject_repricing(repricing_id=found.pk, note=note, actor=self.actor, at=self.at)
        return self.answer(rejected)
