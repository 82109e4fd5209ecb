"""Admin pages of tier schedules: published or replaced by a form, and withdrawn."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_noop
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from billing.domain.pricing.tier_schedule import (
    TierBand,
    TierBasis,
    TierKind,
    TierRule,
    TierScope,
    TierSpan,
)
from billing.models import TierSchedule
from billing.services.pricing.tiers import publish_tiers, withdraw_tiers
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.admin.lists import MarkFilter
from tenants.admin.notes import NoteActionForm, note_of
from tenants.domain.actors import Actor
from tenants.templatetags.texts import figure

PARTS_OF_A_LINE = 2


class TierScheduleForm(ServiceForm):
    """A schedule whose bands are a line each."""

    lines = forms.CharField(
        label="Bands",
        widget=UnfoldAdminTextareaWidget(),
        help_text="A line each: bound and discount in percent. The first bound is 0, such as: 0 5",
    )
    only_sizes = forms.CharField(
        required=False,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Such as: small large. Empty: all.",
    )
    only_groups = forms.CharField(
        required=False,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Such as: H100/* A100/*. Empty: all.",
    )
    reason = forms.CharField(
        required=False,
        max_length=500,
        widget=UnfoldAdminTextInputWidget(),
        help_text="Why, where it replaces another schedule from its first month on.",
    )

    def clean_lines(self) -> tuple[TierBand, ...]:
        """Return the bands of the lines."""
        return tuple(
            _band(line) for line in self.cleaned_data["lines"].splitlines() if line.strip()
        )


@admin.register(TierSchedule)
class TierScheduleAdmin(ServiceAdmin):
    """Discounts by how much is used."""

    form = TierScheduleForm
    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    hint = (
        "Each band gives a discount on the list money of what lies above its bound. A schedule is "
        "never edited: it is withdrawn while none of its months is closed, and else replaced."
    )
    action_form = NoteActionForm
    actions = ("withdraw_schedules",)
    add_fields = (
        "price_book",
        "name",
        "basis",
        "kind",
        "scope",
        "span",
        "year_begins",
        "first_month",
        "last_month",
        "lines",
        "only_sizes",
        "only_groups",
        "replaces",
        "reason",
    )
    help_texts: ClassVar = {
        "basis": "What the bounds of the bands count.",
        "kind": "Graduated: each band for what lies in it. Volume: the band reached, for all.",
        "scope": "Whether each project counts for itself, or the organization as a whole.",
        "year_begins": "The first month of a fiscal year, 1 to 12.",
        "first_month": "Such as 2026-12.",
        "last_month": "Such as 2199-12.",
    }
    list_display = (
        "name",
        "price_book",
        "first_month",
        "last_month",
        "superseded_from",
        "bands_text",
        "withdrawn_at",
    )
    list_filter = (("withdrawn_at", MarkFilter), "price_book")
    list_select_related = ("price_book",)
    search_fields = ("name", "price_book__name")
    autocomplete_fields = ("price_book",)

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        """Return the form's fields, or a schedule's with its bands as text."""
        if obj is None:
            return super().get_fields(request, obj)
        named = [name for name in self.add_fields if name not in TierScheduleForm.declared_fields]
        ends = ["published_at", "withdrawn_at", "superseded_from"]
        return [*named, "bands_text", "sizes", "price_groups", *ends]

    def get_readonly_fields(
        self, request: HttpRequest, obj: Model | None = None
    ) -> tuple[str, ...]:
        """Return what a form shows without letting it be changed."""
        names = super().get_readonly_fields(request, obj)
        return (*names, "bands_text") if obj is not None else names

    @admin.display(description="bands")
    def bands_text(self, row: TierSchedule) -> str:
        """Return the bands, such as "0: 5 %, 100: 10 %"."""
        return ", ".join(
            figure(f"{band['above']}: {band['discount_percent']} %") for band in row.bands
        )

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> TierSchedule:
        """Publish a schedule."""
        rule = TierRule(
            name=fields["name"],
            basis=TierBasis(fields["basis"]),
            kind=TierKind(fields["kind"]),
            scope=TierScope(fields["scope"]),
            span=TierSpan(fields["span"]),
            year_begins=fields["year_begins"],
            sizes=tuple(fields["only_sizes"].split()),
            price_groups=tuple(fields["only_groups"].split()),
            first_month=fields["first_month"],
            last_month=fields["last_month"],
            bands=fields["lines"],
        )
        replaced = fields["replaces"]
        return publish_tiers(
            price_book=fields["price_book"],
            rule=rule,
            replaces=None if replaced is None else replaced.pk,
            reason=fields["reason"],
            actor=actor,
            at=at,
        )

    @admin.action(description="Withdraw", permissions=["write"])
    def withdraw_schedules(self, request: HttpRequest, rows: QuerySet[TierSchedule]) -> None:
        """Withdraw the chosen schedules, of whose months none is closed."""
        reason = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: withdraw_tiers(
                schedule_id=row.pk, reason=reason, actor=actor, at=at
            ),
            done=gettext_noop("is withdrawn"),
        )


def _band(line: str) -> TierBand:
    parts = line.split()
    if len(parts) != PARTS_OF_A_LINE:
        raise forms.ValidationError(
            gettext('Not a bound and a discount: "{word}"').format(word=line)
        )
    try:
        return TierBand(*(Decimal(part) for part in parts))
    except InvalidOperation as error:
        raise forms.ValidationError(gettext('Not a number: "{word}"').format(word=line)) from error
