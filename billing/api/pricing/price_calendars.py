"""Endpoint /api/v1/price-calendars/: time-of-use bands of price books."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    access_calendar,
    access_calendar_to_write,
    access_price_book_to_write,
    calendars_visible_to,
)
from billing.adapters.public_holidays import with_public_holidays
from billing.api.pricing.price_books import WithdrawalSerializer
from billing.domain.pricing.price_book import BAND_LENGTH_MAX
from billing.domain.pricing.price_calendar import DAYS, HOLIDAYS_MAX, BandRule, CalendarRule
from billing.models import PriceCalendar
from billing.services.pricing.price_calendars import publish_calendar, withdraw_calendar
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

TIME_LENGTH = 5
NAME_LENGTH_MAX = 100


class BandRuleSerializer(StrictSerializer):
    """A band on some days, from one local time to another; a holiday is a day of its own."""

    band = serializers.CharField(max_length=BAND_LENGTH_MAX, help_text='A slug, such as "peak".')
    days = serializers.ListField(child=serializers.ChoiceField(choices=DAYS), max_length=len(DAYS))
    to = serializers.CharField(max_length=TIME_LENGTH, help_text='Excluded; up to "24:00".')

    def get_fields(self) -> dict[str, Any]:
        """Return the fields; the name of one is a keyword of Python."""
        begin = serializers.CharField(max_length=TIME_LENGTH, help_text='Such as "08:00".')
        fields = super().get_fields()
        return {"band": fields["band"], "days": fields["days"], "from": begin, "to": fields["to"]}


class HolidaySerializer(StrictSerializer):
    """A holiday beside those of the country."""

    date = serializers.DateField()
    name = serializers.CharField(max_length=NAME_LENGTH_MAX)


class PriceCalendarSerializer(serializers.ModelSerializer[PriceCalendar]):
    """Which band each hour of a price book is in, from `valid_from` until the next calendar."""

    price_book = serializers.UUIDField(source="price_book_id", read_only=True)
    bands = BandRuleSerializer(many=True, read_only=True)
    holidays = serializers.SerializerMethodField()
    valid_from = serializers.DateTimeField(source="begin_at", read_only=True)
    ends_at = serializers.DateTimeField(
        source="end_at",
        read_only=True,
        allow_null=True,
        help_text="From then on no band is known, unless a next calendar has begun.",
    )

    class Meta:
        model = PriceCalendar
        fields = (
            "id",
            "price_book",
            "time_zone",
            "bands",
            "country",
            "subdivision",
            "last_year",
            "holidays",
            "valid_from",
            "ends_at",
            "published_at",
            "superseded_at",
        )
        read_only_fields = fields

    @extend_schema_field(HolidaySerializer(many=True))
    def get_holidays(self, row: PriceCalendar) -> list[dict[str, str]]:
        """Return the holidays as they were known when it was published."""
        return [{"date": day, "name": name} for day, name in sorted(row.holidays.items())]


class PriceCalendarInputSerializer(StrictSerializer):
    """A calendar of a price book from an hour on."""

    price_book = serializers.UUIDField(help_text="One without a base book.")
    valid_from = serializers.DateTimeField(help_text="The start of a UTC hour.")
    time_zone = serializers.CharField(max_length=64)
    bands = BandRuleSerializer(many=True)
    country = serializers.CharField(
        max_length=2, required=False, default="", help_text='Whose holidays, such as "DE".'
    )
    subdivision = serializers.CharField(
        max_length=8, required=False, default="", help_text='Its part, such as "BY".'
    )
    last_year = serializers.IntegerField(
        min_value=2000,
        max_value=2199,
        required=False,
        default=None,
        help_text="The last year of holidays, needed with a country; the calendar ends with it.",
    )
    holidays = HolidaySerializer(many=True, required=False)
    holidays_left_out = serializers.ListField(
        child=serializers.DateField(),
        required=False,
        max_length=HOLIDAYS_MAX,
        help_text="Public holidays that are none here.",
    )


class PriceCalendarFilter(StrictFilterSet):
    """Which calendars are listed."""

    price_book = filters.UUIDFilter(field_name="price_book_id")
    is_superseded = filters.BooleanFilter(
        field_name="superseded_at", lookup_expr="isnull", exclude=True
    )


class PriceCalendarViewSet(ReadingViewSet):
    """Calendars of price books."""

    serializer_class = PriceCalendarSerializer
    filterset_class = PriceCalendarFilter

    def get_queryset(self) -> QuerySet[PriceCalendar]:
        """Return those of the books the caller sees."""
        return calendars_visible_to(self.actor)

    def get_one(self, pk: UUID) -> PriceCalendar:
        """Return one calendar."""
        return access_calendar(self.actor, pk)

    @extend_schema(request=PriceCalendarInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Publish a calendar; the holidays of its country are written into it."""
        fields = self.read(PriceCalendarInputSerializer, request)
        book = access_price_book_to_write(self.actor, fields["price_book"])
        rule = CalendarRule(
            time_zone=fields["time_zone"],
            bands=tuple(
                BandRule(one["band"], tuple(one["days"]), one["from"], one["to"])
                for one in fields["bands"]
            ),
            holidays={one["date"]: one["name"] for one in fields.get("holidays", ())},
            country=fields["country"],
            subdivision=fields["subdivision"],
            last_year=fields["last_year"],
        )
        made = publish_calendar(
            price_book=book,
            rule=with_public_holidays(
                rule,
                valid_from=fields["valid_from"],
                left_out=fields.get("holidays_left_out", ()),
            ),
            valid_from=fields["valid_from"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=WithdrawalSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def withdraw(self, request: Request, pk: UUID) -> Response:
        """Withdraw a calendar that is not in force yet; the one before it goes on."""
        reason = self.read(WithdrawalSerializer, request)["reason"]
        found = access_calendar_to_write(self.actor, pk)
        done = withdraw_calendar(calendar_id=found.pk, reason=reason, actor=self.actor, at=self.at)
        return self.answer(done)
