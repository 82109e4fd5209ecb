"""/api/v1/charges/, accrual-exceptions/ and waste-savings/: what use costs."""

from datetime import date
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    access_charge,
    access_exception,
    charges_visible_to,
    exceptions_visible_to,
    savings_visible_to,
)
from billing.api.money import MoneySerializer, MoneyValueField, UnitPriceField
from billing.domain.documents.document import amount_text, unit_hours_text
from billing.domain.money import Money
from billing.models import AccrualException, Charge
from billing.selectors.documents.line_charges import of_local_day, use_of
from billing.selectors.documents.membership import (
    billed_charges,
    charges_of_invoice,
    charges_of_line,
    unbilled_charges,
    with_line,
)
from billing.selectors.pricing.unpriced import UnpricedRemedy, unpriced_by_remedy
from billing.selectors.waste import money_of, with_money
from metering.access import usage_visible_to
from metering.domain.catalogue.units import GPUSize
from metering.domain.efficiency.rules import WasteRule
from metering.selectors.collection.records import largest_records
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.views import LedgerViewSet, ReadingViewSet

RECORDS_MAX: Final = 500


class ChargeSerializer(serializers.ModelSerializer[Charge]):
    """Unit-seconds of one hour at one price; `line` is null until they are on a final invoice."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    cluster = serializers.UUIDField(source="cluster_id", read_only=True)
    period = serializers.UUIDField(source="period_id", read_only=True)
    price = serializers.UUIDField(source="price_id", read_only=True)
    line = serializers.UUIDField(source="line_id", read_only=True, allow_null=True)
    correction = serializers.UUIDField(source="correction_id", read_only=True, allow_null=True)
    repricing = serializers.UUIDField(source="repricing_id", read_only=True, allow_null=True)
    unit_price = UnitPriceField()
    list_unit_price = UnitPriceField(
        help_text="The base book's price, before a discount; else unit_price. FOCUS: ListUnitPrice."
    )
    unit_hours = serializers.SerializerMethodField()
    cost = MoneyValueField(
        help_text="Of this charge alone, rounded; a line rounds the sum of its charges once."
    )

    class Meta:
        model = Charge
        fields = (
            "id",
            "window_start",
            "cluster",
            "organization",
            "project",
            "owner",
            "size",
            "price_group",
            "correction",
            "repricing",
            "unit_seconds",
            "unit_hours",
            "unit_price",
            "list_unit_price",
            "cost",
            "price",
            "period",
            "line",
            "created_at",
        )
        read_only_fields = fields

    def get_unit_hours(self, charge: Charge) -> str:
        """Return the quantity in unit-hours; `unit_seconds` is the exact one."""
        return unit_hours_text(charge.unit_seconds)


class ChargedRecordSerializer(serializers.Serializer[Any]):
    """A usage record behind a charge; `usage-records/{id}/explain/` leads to its evidence."""

    id = serializers.IntegerField()
    window_start = serializers.DateTimeField()
    namespace = serializers.CharField()
    pod_name = serializers.CharField()
    pod_uid = serializers.CharField()
    resource = serializers.CharField()
    revision = serializers.IntegerField()
    units = serializers.IntegerField()
    seconds = serializers.IntegerField()
    unit_seconds = serializers.IntegerField()


class ChargeFilter(StrictFilterSet):
    """Which charges are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    cluster = filters.UUIDFilter(field_name="cluster_id")
    period = filters.UUIDFilter(field_name="period_id")
    invoice = filters.UUIDFilter(method="filter_invoice")
    line = filters.UUIDFilter(method="filter_line")
    correction = filters.UUIDFilter(field_name="correction_id")
    repricing = filters.UUIDFilter(field_name="repricing_id")
    owner = filters.CharFilter()
    size = filters.CharFilter()
    price_group = filters.CharFilter()
    day = filters.DateFilter(method="filter_day")
    is_billed = filters.BooleanFilter(method="filter_billed")
    hour_from = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="gte")
    hour_before = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="lt")
    updated_from = UpdatedFromFilter(
        "created_at", help_text="Only charges made at this time or since; a charge never changes."
    )

    def filter_invoice(self, rows: QuerySet[Charge], name: str, value: UUID) -> QuerySet[Charge]:  # noqa: ARG002 - As django-filter calls it.
        """Return the charges of a final invoice."""
        return charges_of_invoice(rows, value)

    def filter_line(self, rows: QuerySet[Charge], name: str, value: UUID) -> QuerySet[Charge]:  # noqa: ARG002 - As above.
        """Return the charges of a line of a final invoice."""
        return charges_of_line(rows, value)

    def filter_day(self, rows: QuerySet[Charge], name: str, value: date) -> QuerySet[Charge]:  # noqa: ARG002 - As above.
        """Return the charges of a day in the time zone of their organization."""
        return of_local_day(rows, value)

    def filter_billed(self, rows: QuerySet[Charge], name: str, value: bool) -> QuerySet[Charge]:  # noqa: ARG002, FBT001 - As above.
        """Return the charges that are on final invoices, or those that are not."""
        return billed_charges(rows) if value else unbilled_charges(rows)


class ChargeViewSet(ReadingViewSet):
    """Charges, newest first."""

    serializer_class = ChargeSerializer
    filterset_class = ChargeFilter
    orderings = ("created_at",)
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[Charge]:
        """Return the charges of the projects the caller reaches."""
        return with_line(charges_visible_to(self.actor))

    def get_one(self, pk: int) -> Charge:
        """Return one charge."""
        seen = access_charge(self.actor, pk)
        charge: Charge = with_line(charges_visible_to(self.actor)).get(pk=seen.pk)
        return charge

    @extend_schema(responses=ChargedRecordSerializer(many=True), filters=False)
    @action(detail=True, url_path="usage-records", pagination_class=None)
    def usage_records(self, request: Request, pk: int) -> Response:  # noqa: ARG002 - DRF's signature.
        """Return the usage records that a charge was added up from, at most the 500 largest."""
        use = use_of(access_charge(self.actor, pk))
        found = largest_records(usage_visible_to(self.actor), [use], limit=RECORDS_MAX).get(use)
        records = found.records if found else ()
        return Response(ChargedRecordSerializer(records, many=True).data)


class AccrualExceptionSerializer(serializers.ModelSerializer[AccrualException]):
    """Use that has no price, and what to do about it."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)

    class Meta:
        model = AccrualException
        fields = (
            "id",
            "window_start",
            "organization",
            "project",
            "size",
            "price_group",
            "unit_seconds",
            "code",
            "summary",
            "remedy",
            "created_at",
            "resolved_at",
        )
        read_only_fields = fields


class UnpricedRemedySerializer(serializers.Serializer[UnpricedRemedy]):
    """Open exceptions that one price, book or calendar would settle."""

    code = serializers.ChoiceField(
        choices=["no_price", "no_price_book", "no_price_calendar"], help_text="What is lacking."
    )
    price_book = serializers.UUIDField(
        source="price_book_id", allow_null=True, help_text="That lacks it; null without a book."
    )
    price_book_name = serializers.CharField(source="price_book")
    organization = serializers.UUIDField(
        source="organization_id", allow_null=True, help_text="Without a book; null in other cases."
    )
    size = serializers.CharField(help_text="Of the missing price; empty in other cases.")
    price_group = serializers.CharField(help_text="Of the missing price; empty in other cases.")
    exceptions = serializers.IntegerField()
    hours = serializers.IntegerField()
    unit_seconds = serializers.IntegerField()
    first_start = serializers.DateTimeField(help_text="From this hour on the remedy has to hold.")
    last_start = serializers.DateTimeField()
    organizations = serializers.IntegerField(help_text="Of how many organizations the use is.")
    organization_names = serializers.ListField(
        child=serializers.CharField(), source="names", help_text="The first of them by name."
    )


class UnpricedRemediesSerializer(serializers.Serializer[Any]):
    """At most 100 remedies, that of most use first."""

    results = UnpricedRemedySerializer(many=True)


class AccrualExceptionFilter(StrictFilterSet):
    """Which exceptions are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    code = filters.CharFilter()
    is_open = filters.BooleanFilter(field_name="resolved_at", lookup_expr="isnull")
    updated_from = UpdatedFromFilter(
        "created_at",
        "resolved_at",
        help_text="Only exceptions opened or resolved at this time or since.",
    )


class AccrualExceptionViewSet(ReadingViewSet):
    """Use without a price, newest first."""

    serializer_class = AccrualExceptionSerializer
    filterset_class = AccrualExceptionFilter
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[AccrualException]:
        """Return the exceptions of the projects the caller reaches."""
        return exceptions_visible_to(self.actor)

    def get_one(self, pk: int) -> AccrualException:
        """Return one exception."""
        return access_exception(self.actor, pk)

    @extend_schema(responses=UnpricedRemediesSerializer)
    @action(detail=False, pagination_class=None)
    def remedies(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature.
        """Return what open exceptions lack, once for each remedy, the one of most use first.

        At most 100.
        """
        found = unpriced_by_remedy(self.filter_queryset(self.get_queryset()))
        return Response(UnpricedRemediesSerializer({"results": found}).data)


STATE_CHOICES = [(state, state) for state in ("open", "closed", "dismissed")]


class WasteSavingSerializer(serializers.Serializer[Any]):
    """A waste finding with money at the prices in force; null where it is unknown."""

    finding = serializers.IntegerField(source="pk")
    cluster = serializers.UUIDField(source="cluster_id")
    organization = serializers.UUIDField(source="organization_id")
    project = serializers.UUIDField(source="project_id")
    owner = serializers.CharField()
    namespace = serializers.CharField()
    pod_name = serializers.CharField()
    rule = serializers.CharField()
    state = serializers.CharField()
    from_at = serializers.DateTimeField()
    until_at = serializers.DateTimeField()
    units = serializers.IntegerField()
    size = serializers.CharField()
    price_group = serializers.CharField()
    suggested_units = serializers.IntegerField()
    suggested_size = serializers.CharField()
    suggested_price_group = serializers.CharField()
    wasted_unit_seconds = serializers.IntegerField(
        source="known_wasted_unit_seconds",
        allow_null=True,
        help_text="Null where no memory figure says whether something smaller would do.",
    )
    lost = serializers.SerializerMethodField()
    monthly_saving = serializers.SerializerMethodField()

    @extend_schema_field(MoneySerializer(allow_null=True))
    def get_lost(self, finding: Any) -> dict[str, str] | None:  # noqa: ANN401 - An annotated row.
        """Return what was paid so far for what the suggestion would not have taken."""
        return _text(money_of(finding).lost)

    @extend_schema_field(MoneySerializer(allow_null=True))
    def get_monthly_saving(self, finding: Any) -> dict[str, str] | None:  # noqa: ANN401 - As above.
        """Return what a month of 730 hours would save."""
        return _text(money_of(finding).monthly)


class WasteSavingFilter(StrictFilterSet):
    """Which findings are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    cluster = filters.UUIDFilter(field_name="cluster_id")
    owner = filters.CharFilter()
    rule = filters.ChoiceFilter(choices=[(rule.value, rule.value) for rule in WasteRule])
    state = filters.ChoiceFilter(choices=STATE_CHOICES)
    size = filters.ChoiceFilter(choices=[(size.value, size.value) for size in GPUSize])


class WasteSavingViewSet(ListModelMixin, LedgerViewSet):
    """Waste in money."""

    serializer_class = WasteSavingSerializer
    filterset_class = WasteSavingFilter
    ordering = ("-money_order", "-pk")

    def get_queryset(self) -> QuerySet[Any]:
        """Return the findings of the projects whose usage and charges the caller reaches."""
        return with_money(savings_visible_to(self.actor), at=self.at)


def _text(money: Money | None) -> dict[str, str] | None:
    if money is None:
        return None
    return {"amount": amount_text(money), "currency": money.currency}
