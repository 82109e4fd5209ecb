"""Admin pages of calendars of price books: published by a form, and withdrawn."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext, gettext_noop
from unfold.widgets import (
    UnfoldAdminSplitDateTimeWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from billing.adapters.public_holidays import with_public_holidays
from billing.domain.pricing.price_calendar import BandRule, CalendarRule
from billing.models import PriceCalendar
from billing.services.pricing.price_calendars import publish_calendar, withdraw_calendar
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.admin.lists import MarkFilter
from tenants.admin.notes import NoteActionForm, note_of
from tenants.domain.actors import Actor

PARTS_OF_A_RULE = 4


class PriceCalendarForm(ServiceForm):
    """A calendar whose rules are a line each."""

    valid_from = forms.SplitDateTimeField(
        widget=UnfoldAdminSplitDateTimeWidget(),
        help_text="The start of a UTC hour; the calendar before it ends there.",
    )
    rules = forms.CharField(
        widget=UnfoldAdminTextareaWidget(),
        help_text="A line each: band, days, and local times, such as: "
        "peak mon,tue,wed,thu,fri 08:00 20:00. On a holiday only rules for: holiday.",
    )
    more_holidays = forms.CharField(
        required=False,
        widget=UnfoldAdminTextareaWidget(),
        help_text="Beside those of the country, a line each: 2026-12-24 Christmas Eve",
    )
    left_out = forms.CharField(
        required=False,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Public holidays that are none here, such as: 2026-10-31 2027-10-31",
    )

    def clean_rules(self) -> tuple[BandRule, ...]:
        """Return the rules of the lines."""
        return tuple(
            _rule(line) for line in self.cleaned_data["rules"].splitlines() if line.strip()
        )

    def clean_more_holidays(self) -> dict[date, str]:
        """Return the names of the lines, by date."""
        lines = [line.split(maxsplit=1) for line in self.cleaned_data["more_holidays"].splitlines()]
        return {_date(words[0]): " ".join(words[1:]) or words[0] for words in lines if words}

    def clean_left_out(self) -> list[date]:
        """Return the dates."""
        return [_date(word) for word in self.cleaned_data["left_out"].split()]


@admin.register(PriceCalendar)
class PriceCalendarAdmin(ServiceAdmin):
    """Which time-of-use band each hour of a price book is in."""

    form = PriceCalendarForm
    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "The band of an hour is that of its first instant in the time zone. Holidays are written "
        "into the calendar when it is published. With a last year it ends: publish the next one "
        "before, or use in bands has no price. A discount book has the calendar of its base."
    )
    action_form = NoteActionForm
    actions = ("withdraw_calendars",)
    add_fields = (
        "price_book",
        "valid_from",
        "time_zone",
        "rules",
        "country",
        "subdivision",
        "last_year",
        "more_holidays",
        "left_out",
    )
    help_texts: ClassVar = {
        "time_zone": "Of the times in the rules, such as Europe/Berlin.",
        "country": "Whose public holidays apply, such as DE. Empty: only those below.",
        "subdivision": "A part of the country with holidays of its own, such as BY.",
        "last_year": "The last year of the public holidays; the calendar ends with it.",
    }
    list_display = (
        "price_book",
        "time_zone",
        "rules_text",
        "begin_at",
        "end_at",
        "superseded_at",
    )
    list_filter = (("superseded_at", MarkFilter), "price_book")
    list_select_related = ("price_book",)
    search_fields = ("price_book__name", "price_book__slug")
    autocomplete_fields = ("price_book",)

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        """Return the form's fields, or a calendar's with its rules as text."""
        if obj is None:
            return super().get_fields(request, obj)
        return [
            "price_book",
            "time_zone",
            "begin_at",
            "end_at",
            "rules_text",
            "country",
            "subdivision",
            "holidays_text",
            "published_at",
            "superseded_at",
        ]

    def get_readonly_fields(
        self, request: HttpRequest, obj: Model | None = None
    ) -> tuple[str, ...]:
        """Return what a form shows without letting it be changed."""
        names = super().get_readonly_fields(request, obj)
        return (*names, "rules_text", "holidays_text") if obj is not None else names

    @admin.display(description="bands")
    def rules_text(self, row: PriceCalendar) -> str:
        """Return a line for each rule, as the form takes it."""
        lines = (
            (f"{one['band']} {','.join(one['days'])} {one['from']} {one['to']}",)
            for one in row.bands
        )
        return format_html_join(mark_safe("<br>"), "{}", lines)

    @admin.display(description="holidays")
    def holidays_text(self, row: PriceCalendar) -> str:
        """Return a line for each holiday."""
        return "\n".join(f"{day} {name}" for day, name in sorted(row.holidays.items())) or gettext(
            "none"
        )

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> PriceCalendar:
        """Publish a calendar."""
        rule = CalendarRule(
            time_zone=fields["time_zone"],
            bands=fields["rules"],
            holidays=fields["more_holidays"],
            country=fields["country"],
            subdivision=fields["subdivision"],
            last_year=fields["last_year"],
        )
        return publish_calendar(
            price_book=fields["price_book"],
            rule=with_public_holidays(
                rule, valid_from=fields["valid_from"], left_out=fields["left_out"]
            ),
            valid_from=fields["valid_from"],
            actor=actor,
            at=at,
        )

    @admin.action(description="Withdraw", permissions=["write"])
    def withdraw_calendars(self, request: HttpRequest, rows: QuerySet[PriceCalendar]) -> None:
        """Withdraw the chosen calendars, which are not in force yet."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: withdraw_calendar(
                calendar_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is withdrawn"),
        )


def _rule(line: str) -> BandRule:
    words = line.split()
    if len(words) != PARTS_OF_A_RULE:
        raise forms.ValidationError(
            gettext('Not band, days and two times: "{word}"').format(word=line)
        )
    band, days, begin, end = words
    return BandRule(band, tuple(days.split(",")), begin, end)


def _date(word: str) -> date:
    try:
        return date.fromisoformat(word)
    except ValueError as error:
        raise forms.ValidationError(
            gettext('Not a date such as 2026-12-24: "{word}"').format(word=word)
        ) from error
