"""Endpoint /api/v1/tier-schedules/: discounts by use, published, withdrawn and replaced."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    access_price_book_to_write,
    access_tiers,
    access_tiers_to_write,
    tiers_visible_to,
)
from billing.api.pricing.price_books import WithdrawalSerializer
from billing.domain.pricing.tier_schedule import (
    BANDS_MAX,
    BOUND_DECIMALS,
    NAME_LENGTH_MAX,
    TierBand,
    TierBasis,
    TierKind,
    TierRule,
    TierScope,
    TierSpan,
)
from billing.models import TierSchedule
from billing.models.tier import BASIS_CHOICES, SCOPE_CHOICES, SPAN_CHOICES, TIER_KIND_CHOICES
from billing.services.pricing.tiers import publish_tiers, withdraw_tiers
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

KEYS_MAX = 100
_CHOSEN = {"basis": TierBasis, "kind": TierKind, "scope": TierScope, "span": TierSpan}


class TierBandSerializer(StrictSerializer):
    """The discount on what lies above a bound, up to the bound of the next band."""

    above = serializers.DecimalField(
        max_digits=16,
        decimal_places=BOUND_DECIMALS,
        help_text="In unit-hours or money; the first is 0.",
    )
    discount_percent = serializers.DecimalField(
        max_digits=7, decimal_places=BOUND_DECIMALS, help_text="From 0 to 100."
    )


class TierScheduleSerializer(serializers.ModelSerializer[TierSchedule]):
    """Bands of a discount on the list money of a book's organizations, from month to month."""

    price_book = serializers.UUIDField(source="price_book_id", read_only=True)
    sizes = serializers.ListField(child=serializers.CharField(), read_only=True)
    price_groups = serializers.ListField(child=serializers.CharField(), read_only=True)
    bands = TierBandSerializer(many=True, read_only=True)
    replaces = serializers.UUIDField(source="replaces_id", read_only=True, allow_null=True)

    class Meta:
        model = TierSchedule
        fields = (
            "id",
            "price_book",
            "name",
            "basis",
            "kind",
            "scope",
            "span",
            "year_begins",
            "sizes",
            "price_groups",
            "first_month",
            "last_month",
            "bands",
            "published_at",
            "withdrawn_at",
            "replaces",
            "superseded_from",
        )
        read_only_fields = fields


class TierScheduleInputSerializer(StrictSerializer):
    """A new tier schedule of a book."""

    price_book = serializers.UUIDField()
    name = serializers.CharField(max_length=NAME_LENGTH_MAX)
    basis = serializers.ChoiceField(choices=BASIS_CHOICES)
    kind = serializers.ChoiceField(choices=TIER_KIND_CHOICES)
    scope = serializers.ChoiceField(choices=SCOPE_CHOICES)
    span = serializers.ChoiceField(choices=SPAN_CHOICES)
    year_begins = serializers.IntegerField(
        default=1, help_text="First month of a fiscal year, 1 to 12."
    )
    sizes = serializers.ListField(
        child=serializers.CharField(max_length=16), default=list, max_length=KEYS_MAX
    )
    price_groups = serializers.ListField(
        child=serializers.CharField(max_length=96), default=list, max_length=KEYS_MAX
    )
    first_month = serializers.CharField(max_length=7, help_text='Such as "2027-01".')
    last_month = serializers.CharField(max_length=7)
    bands = serializers.ListField(child=TierBandSerializer(), min_length=1, max_length=BANDS_MAX)
    replaces = serializers.UUIDField(
        required=False, default=None, help_text="The wrong schedule, from `first_month` on."
    )
    reason = serializers.CharField(required=False, default="", max_length=500)


class TierScheduleFilter(StrictFilterSet):
    """Which tier schedules are listed."""

    price_book = filters.UUIDFilter(field_name="price_book_id")
    is_withdrawn = filters.BooleanFilter(
        field_name="withdrawn_at", lookup_expr="isnull", exclude=True
    )


class TierScheduleViewSet(ReadingViewSet):
    """Tier schedules."""

    serializer_class = TierScheduleSerializer
    filterset_class = TierScheduleFilter

    def get_queryset(self) -> QuerySet[TierSchedule]:
        """Return the schedules of the books the caller sees."""
        return tiers_visible_to(self.actor)

    def get_one(self, pk: UUID) -> TierSchedule:
        """Return one schedule."""
        return access_tiers(self.actor, pk)

    @extend_schema(request=TierScheduleInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Publish a tier schedule of a price book."""
        fields = self.read(TierScheduleInputSerializer, request)
        book = access_price_book_to_write(self.actor, fields.pop("price_book"))
        repair = {name: fields.pop(name) for name in ("replaces", "reason")}
        made = publish_tiers(
            price_book=book, rule=_rule(fields), actor=self.actor, at=self.at, **repair
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=WithdrawalSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def withdraw(self, request: Request, pk: UUID) -> Response:
        """Withdraw a tier schedule of whose months none is closed."""
        reason = self.read(WithdrawalSerializer, request)["reason"]
        found = access_tiers_to_write(self.actor, pk)
        done = withdraw_tiers(schedule_id=found.pk, reason=reason, actor=self.actor, at=self.at)
        return self.answer(done)


def _rule(fields: dict[str, Any]) -> TierRule:
    chosen = {name: kind(fields[name]) for name, kind in _CHOSEN.items()}
    listed = {name: tuple(fields[name]) for name in ("sizes", "price_groups")}
    bands = tuple(TierBand(**band) for band in fields["bands"])
    return TierRule(**{**fields, **chosen, **listed, "bands": bands})
