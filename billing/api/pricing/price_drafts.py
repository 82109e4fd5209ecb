"""Endpoint /api/v1/price-drafts/: prices previewed on last month's use, published together."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    access_draft,
    access_draft_to_write,
    access_price_book_to_write,
    drafts_visible_to,
)
from billing.api.money import MoneyTextField, unit_price_input
from billing.domain.pricing.price_book import ANY_GROUP, BAND_LENGTH_MAX
from billing.domain.pricing.price_draft import DraftedPrice
from billing.models import PriceDraft, PriceDraftState
from billing.services.pricing.price_drafts import draft_prices, publish_draft, reject_draft
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

REASON_LENGTH_MAX = 2_000


class DraftedPriceSerializer(StrictSerializer):
    """A price of a draft, per unit-hour in the book's currency."""

    size = serializers.CharField(max_length=16)
    price_group = serializers.CharField(max_length=96, default=ANY_GROUP)
    cluster = serializers.UUIDField(
        required=False, help_text="The only cluster it prices; any without it."
    )
    band = serializers.CharField(
        max_length=BAND_LENGTH_MAX,
        required=False,
        help_text="The only time-of-use band it prices; any without it.",
    )
    unit_price = unit_price_input()
    replaces = serializers.UUIDField(
        required=False, help_text="The wrong price of this key, in force at valid_from."
    )


class PriceEffectSerializer(serializers.Serializer[Any]):
    """What an organization's use costs at the prices in force and at the drafted ones."""

    organization = serializers.CharField()
    before = MoneyTextField()
    after = MoneyTextField()
    unpriced_unit_seconds = serializers.IntegerField()


class PriceDraftSerializer(serializers.ModelSerializer[PriceDraft]):
    """Prices of a book from an hour on, and what they change on the use of `month`."""

    price_book = serializers.UUIDField(source="price_book_id", read_only=True)
    currency = serializers.CharField(source="price_book.currency", read_only=True)
    prices = DraftedPriceSerializer(many=True, read_only=True)
    effects = serializers.SerializerMethodField()

    class Meta:
        model = PriceDraft
        fields = (
            "id",
            "price_book",
            "currency",
            "valid_from",
            "prices",
            "month",
            "effects",
            "reason",
            "state",
            "requested_by",
            "requested_at",
            "decided_by",
            "decided_at",
            "decision_note",
        )
        read_only_fields = fields

    @extend_schema_field(PriceEffectSerializer(many=True))
    def get_effects(self, draft: PriceDraft) -> list[dict[str, object]]:
        """Return what the prices change for each organization, in the currency of their book."""
        currency = draft.price_book.currency
        effects = [{**effect, "currency": currency} for effect in draft.effects]
        return list(PriceEffectSerializer(effects, many=True).data)


class PriceDraftInputSerializer(StrictSerializer):
    """New prices of a book from an hour on, and why."""

    price_book = serializers.UUIDField()
    prices = DraftedPriceSerializer(many=True)
    valid_from = serializers.DateTimeField(help_text="The start of a UTC hour.")
    reason = serializers.CharField(max_length=REASON_LENGTH_MAX)


class DraftPublicationSerializer(StrictSerializer):
    """The note of a publication."""

    note = serializers.CharField(
        max_length=REASON_LENGTH_MAX, allow_blank=True, required=False, default=""
    )


class DraftRejectionSerializer(StrictSerializer):
    """Why a draft is turned down."""

    note = serializers.CharField(max_length=REASON_LENGTH_MAX)


class PriceDraftFilter(StrictFilterSet):
    """Which drafts are listed."""

    price_book = filters.UUIDFilter(field_name="price_book_id")
    state = filters.ChoiceFilter(choices=PriceDraftState.choices)


class PriceDraftViewSet(ReadingViewSet):
    """Drafts of prices, newest first."""

    serializer_class = PriceDraftSerializer
    filterset_class = PriceDraftFilter
    ordering = ("-requested_at", "pk")

    def get_queryset(self) -> QuerySet[PriceDraft]:
        """Return the drafts the caller sees."""
        return drafts_visible_to(self.actor)

    def get_one(self, pk: UUID) -> PriceDraft:
        """Return one draft."""
        return access_draft(self.actor, pk)

    @extend_schema(request=PriceDraftInputSerializer, responses={201: PriceDraftSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Propose prices and preview what they change; nothing is priced by a draft."""
        fields = self.read(PriceDraftInputSerializer, request)
        made = draft_prices(
            price_book=access_price_book_to_write(self.actor, fields["price_book"]),
            prices=[DraftedPrice(**price) for price in fields["prices"]],
            valid_from=fields["valid_from"],
            reason=fields["reason"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=DraftPublicationSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def publish(self, request: Request, pk: UUID) -> Response:
        """Set every price of a draft, or none."""
        note = self.read(DraftPublicationSerializer, request)["note"]
        done = publish_draft(
            draft_id=access_draft_to_write(self.actor, pk).pk,
            note=note,
            is_four_eyes=settings.FOUR_EYES,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(done)

    @extend_schema(request=DraftRejectionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def reject(self, request: Request, pk: UUID) -> Response:
        """Turn a draft down; the prices stay as they are."""
        note = self.read(DraftRejectionSerializer, request)["note"]
        done = reject_draft(
            draft_id=access_draft_to_write(self.actor, pk).pk,
            note=note,
            actor=self.actor,
            at=self.at,
        )
        return self.answer(done)
