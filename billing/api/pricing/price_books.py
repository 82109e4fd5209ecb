"""Endpoints /api/v1/price-books/, prices/ and price-book-assignments/."""

from datetime import datetime
from typing import TypeVar
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    WRITE_PRICE,
    access_assignment,
    access_assignment_to_write,
    access_customer_class,
    access_payer,
    access_price,
    access_price_book,
    access_price_book_to_write,
    access_price_to_write,
    assignments_visible_to,
    price_books_visible_to,
    prices_visible_to,
)
from billing.api.money import UnitPriceField, unit_price_input
from billing.domain.pricing.price_book import ANY_GROUP, BAND_LENGTH_MAX
from billing.models import Price, PriceBook, PriceBookAssignment
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.price_history import withdraw_assignment, withdraw_price
from billing.services.pricing.prices import create_price_book, set_price
from tenants.access import access_cluster, require_capability
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

REASON_LENGTH_MAX = 2_000
Row = TypeVar("Row", Price, PriceBookAssignment)


class PriceBookSerializer(serializers.ModelSerializer[PriceBook]):
    """A list of prices in one currency, or a discount on `base_book`."""

    base_book = serializers.UUIDField(source="base_book_id", read_only=True, allow_null=True)

    class Meta:
        model = PriceBook
        fields = (
            "id",
            "slug",
            "name",
            "currency",
            "base_book",
            "discount_percent",
            "version",
            "created_at",
        )
        read_only_fields = fields


class PriceBookInputSerializer(StrictSerializer):
    """A new price book."""

    slug = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=200)
    currency = serializers.CharField(max_length=3)
    base_book = serializers.UUIDField(
        default=None, allow_null=True, help_text="Whose prices it has where it has none of its own."
    )
    discount_percent = serializers.DecimalField(
        max_digits=5,
        decimal_places=2,
        default=None,
        allow_null=True,
        help_text="What is taken off the prices of the base book, as text.",
    )


class PriceBookFilter(StrictFilterSet):
    """Which price books are listed."""

    slug = filters.CharFilter()
    currency = filters.CharFilter()


class PriceBookViewSet(ReadingViewSet):
    """Price books."""

    serializer_class = PriceBookSerializer
    filterset_class = PriceBookFilter
    ordering = "slug"

    def get_queryset(self) -> QuerySet[PriceBook]:
        """Return the books the caller is billed by, or all."""
        return price_books_visible_to(self.actor)

    def get_one(self, pk: UUID) -> PriceBook:
        """Return one book."""
        return access_price_book(self.actor, pk)

    @extend_schema(request=PriceBookInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Make an empty price book."""
        fields = self.read(PriceBookInputSerializer, request)
        require_capability(self.actor, WRITE_PRICE)
        if fields["base_book"] is not None:
            fields["base_book"] = access_price_book(self.actor, fields["base_book"])
        made = create_price_book(**fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)


class PriceSerializer(serializers.ModelSerializer[Price]):
    """The price of a unit-hour for [valid_from, valid_until).

    It prices nothing any more from `superseded_at` on; charges made at it before keep it.
    """

    price_book = serializers.UUIDField(source="price_book_id", read_only=True)
    sku_price_id = serializers.UUIDField(
        read_only=True,
        help_text="Of the key: book, size, group, cluster and band. The same for each price of it.",
    )
    cluster = serializers.UUIDField(
        source="cluster_id", read_only=True, allow_null=True, help_text="Null for any cluster."
    )
    unit_price = UnitPriceField(currency_source="price_book.currency")
    valid_from = serializers.DateTimeField(source="valid.lower", read_only=True)
    valid_until = serializers.DateTimeField(source="valid.upper", read_only=True, allow_null=True)
    replaces = serializers.UUIDField(source="replaces_id", read_only=True, allow_null=True)

    class Meta:
        model = Price
        fields = (
            "id",
            "sku_price_id",
            "price_book",
            "size",
            "price_group",
            "cluster",
            "band",
            "unit_price",
            "valid_from",
            "valid_until",
            "published_at",
            "superseded_at",
            "replaces",
        )
        read_only_fields = fields


class WithdrawalSerializer(StrictSerializer):
    """Why something that is not in force yet is withdrawn."""

    reason = serializers.CharField(max_length=REASON_LENGTH_MAX)


class RepairSerializer(StrictSerializer):
    """What a new row takes the hours of, and why."""

    replaces = serializers.UUIDField(
        default=None, allow_null=True, help_text="The wrong one, in force at valid_from."
    )
    reason = serializers.CharField(
        max_length=REASON_LENGTH_MAX,
        default="",
        allow_blank=True,
        help_text="Needed to replace one, or for hours that are charged already.",
    )


class PriceInputSerializer(RepairSerializer):
    """A price from an hour on; the one before it ends there, or is replaced."""

    price_book = serializers.UUIDField()
    size = serializers.CharField(max_length=16)
    price_group = serializers.CharField(
        max_length=96,
        default=ANY_GROUP,
        help_text='A device share, or "*" for any; with "/burst" behind it for preemptible use.',
    )
    cluster = serializers.UUIDField(
        default=None, allow_null=True, help_text="The only cluster it prices; null for any."
    )
    band = serializers.CharField(
        max_length=BAND_LENGTH_MAX,
        default="",
        allow_blank=True,
        help_text="The only time-of-use band it prices, of a calendar of the book; empty for any.",
    )
    unit_price = unit_price_input()
    valid_from = serializers.DateTimeField(help_text="The start of a UTC hour.")


class PublishedFilter(StrictFilterSet):
    """Which of what has two time axes is listed."""

    valid_at = filters.IsoDateTimeFilter(
        method="filter_valid_at", help_text="In force at this time, and not superseded."
    )
    is_superseded = filters.BooleanFilter(
        field_name="superseded_at", lookup_expr="isnull", exclude=True
    )

    def filter_valid_at(self, rows: QuerySet[Row], _: str, at: datetime) -> QuerySet[Row]:
        """Return what is in force at a time."""
        return rows.filter(valid__contains=at, superseded_at__isnull=True)


class PriceFilter(PublishedFilter):
    """Which prices are listed."""

    price_book = filters.UUIDFilter(field_name="price_book_id")
    size = filters.CharFilter()
    price_group = filters.CharFilter()
    cluster = filters.UUIDFilter(field_name="cluster_id")


class PriceViewSet(ReadingViewSet):
    """Prices."""

    serializer_class = PriceSerializer
    filterset_class = PriceFilter

    def get_queryset(self) -> QuerySet[Price]:
        """Return the prices of the books the caller sees."""
        return prices_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Price:
        """Return one price."""
        return access_price(self.actor, pk)

    @extend_schema(request=PriceInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Set a price from an hour on."""
        fields = self.read(PriceInputSerializer, request)
        book = access_price_book_to_write(self.actor, fields.pop("price_book"))
        if fields["cluster"] is not None:
            fields["cluster"] = access_cluster(self.actor, fields["cluster"], WRITE_PRICE)
        made = set_price(price_book=book, **fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=WithdrawalSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def withdraw(self, request: Request, pk: UUID) -> Response:
        """Withdraw a price that is not in force yet; the one before it goes on."""
        reason = self.read(WithdrawalSerializer, request)["reason"]
        found = access_price_to_write(self.actor, pk)
        done = withdraw_price(price_id=found.pk, reason=reason, actor=self.actor, at=self.at)
        return self.answer(done)


class AssignmentSerializer(serializers.ModelSerializer[PriceBookAssignment]):
    """The book of an organization, of a class or of all for [valid_from, valid_until)."""

    organization = serializers.UUIDField(source="organization_id", read_only=True, allow_null=True)
    customer_class = serializers.UUIDField(
        source="customer_class_id",
        read_only=True,
        allow_null=True,
        help_text="Null, as organization is, for the default book of all.",
    )
    price_book = serializers.UUIDField(
        source="price_book_id",
        read_only=True,
        allow_null=True,
        help_text="Null for none of its own: the book of the class applies, or the default one.",
    )
    valid_from = serializers.DateTimeField(source="valid.lower", read_only=True)
    valid_until = serializers.DateTimeField(source="valid.upper", read_only=True, allow_null=True)
    replaces = serializers.UUIDField(source="replaces_id", read_only=True, allow_null=True)

    class Meta:
        model = PriceBookAssignment
        fields = (
            "id",
            "organization",
            "customer_class",
            "price_book",
            "valid_from",
            "valid_until",
            "published_at",
            "superseded_at",
            "replaces",
        )
        read_only_fields = fields


class AssignmentInputSerializer(RepairSerializer):
    """A price book for an organization, a customer class or everybody, from an hour on."""

    organization = serializers.UUIDField(default=None, allow_null=True)
    customer_class = serializers.UUIDField(default=None, allow_null=True)
    is_default = serializers.BooleanField(
        default=False, help_text="Instead of both: for all organizations in its currency."
    )
    price_book = serializers.UUIDField(
        allow_null=True,
        help_text="Null for none of its own any more: that of the class applies, or the default.",
    )
    valid_from = serializers.DateTimeField(help_text="The start of a UTC hour.")


class AssignmentFilter(PublishedFilter):
    """Which assignments are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    customer_class = filters.UUIDFilter(field_name="customer_class_id")
    price_book = filters.UUIDFilter(field_name="price_book_id")


class PriceBookAssignmentViewSet(ReadingViewSet):
    """Price book assignments."""

    serializer_class = AssignmentSerializer
    filterset_class = AssignmentFilter

    def get_queryset(self) -> QuerySet[PriceBookAssignment]:
        """Return the assignments of the organizations whose prices the caller reads."""
        return assignments_visible_to(self.actor)

    def get_one(self, pk: UUID) -> PriceBookAssignment:
        """Return one assignment."""
        return access_assignment(self.actor, pk)

    @extend_schema(request=AssignmentInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Bill an organization by a price book from an hour on."""
        fields = self.read(AssignmentInputSerializer, request)
        if fields["organization"] is not None:
            fields["organization"] = access_payer(self.actor, fields["organization"], WRITE_PRICE)
        if fields["customer_class"] is not None:
            fields["customer_class"] = access_customer_class(self.actor, fields["customer_class"])
        if fields["price_book"] is not None:
            fields["price_book"] = access_price_book_to_write(self.actor, fields["price_book"])
        require_capability(self.actor, WRITE_PRICE)
        made = assign_price_book(**fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=WithdrawalSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def withdraw(self, request: Request, pk: UUID) -> Response:
        """Withdraw an assignment that is not in force yet; the one before it goes on."""
        reason = self.read(WithdrawalSerializer, request)["reason"]
        found = access_assignment_to_write(self.actor, pk)
        done = withdraw_assignment(
            assignment_id=found.pk, reason=reason, actor=self.actor, at=self.at
        )
        return self.answer(done)
