"""Admin pages of drafts of prices: what they change on last month's use, and their publication."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_noop
from unfold.decorators import display
from unfold.widgets import (
    UnfoldAdminSplitDateTimeWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
)

from billing.domain.pricing.price_book import ANY_TIME
from billing.domain.pricing.price_draft import DraftedPrice
from billing.models import PriceDraft, PriceDraftState
from billing.selectors.pricing.price_drafts import clusters_by_slug, clusters_named
from billing.services.pricing.price_drafts import draft_prices, publish_draft, reject_draft
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.admin.notes import NOTE_LENGTH_MAX, NoteActionForm, note_of
from tenants.domain.actors import Actor
from tenants.models import Cluster
from tenants.templatetags.texts import figure, value_text

COLORS = {
    PriceDraftState.PROPOSED.value: "warning",
    PriceDraftState.PUBLISHED.value: "success",
    PriceDraftState.REJECTED.value: "info",
}
PARTS_OF_A_LINE = (3, 4, 5, 6)
"""Size, group and price; behind them a cluster, a band, and the id of a price to replace."""
ON_CLUSTER = "cluster="
IN_BAND = "band="


class PriceDraftForm(ServiceForm):
    """New prices of a book, a line each, from an hour on, and why."""

    valid_from = forms.SplitDateTimeField(
        widget=UnfoldAdminSplitDateTimeWidget(), help_text="The start of a UTC hour."
    )
    lines = forms.CharField(
        label="Prices",
        widget=UnfoldAdminTextareaWidget(),
        help_text="A line each: size, group and price, such as: large H100/whole 4.125. "
        "For one cluster or band add it, such as cluster=hopper band=peak; to replace a wrong "
        "price, add its id.",
    )
    reason = forms.CharField(max_length=NOTE_LENGTH_MAX, widget=UnfoldAdminTextInputWidget())

    def clean_lines(self) -> list[DraftedPrice]:
        """Return the prices of the lines."""
        lines = [line.split() for line in self.cleaned_data["lines"].splitlines() if line.strip()]
        slugs = [slug for words in lines for slug in _marked(words[3:], ON_CLUSTER)]
        clusters = clusters_by_slug(slugs)
        return [_price(words, clusters) for words in lines]


@admin.register(PriceDraft)
class PriceDraftAdmin(ServiceAdmin):
    """Prices that are not published yet."""

    form = PriceDraftForm
    view_capability = "billing:price:read"
    write_capability = "billing:price:write"
    undecided = PriceDraftState.PROPOSED.value
    approving = "publish_drafts"
    hint = (
        "A draft shows what its prices change on last month's use. Another person publishes it: "
        "then every price is set, or none."
    )
    action_form = NoteActionForm
    actions = ("publish_drafts", "reject_drafts")
    add_fields = ("price_book", "valid_from", "lines", "reason")
    list_display = ("price_book", "valid_from", "state_label", "reason", "requested_by")
    list_filter = ("state", "price_book")
    list_select_related = ("price_book",)
    search_fields = ("price_book__name", "reason")
    autocomplete_fields = ("price_book",)
    ordering = ("-requested_at",)

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        """Return the form's fields, or a draft's with prices and effects as text."""
        if obj is None:
            return super().get_fields(request, obj)
        return [
            "price_book",
            "valid_from",
            "prices_text",
            "effects_text",
            "reason",
            "state",
            "requested_by",
            "decided_by",
            "decision_note",
        ]

    def get_readonly_fields(
        self, request: HttpRequest, obj: Model | None = None
    ) -> tuple[str, ...]:
        """Return what a form shows without letting it be changed."""
        names = super().get_readonly_fields(request, obj)
        return (*names, "prices_text", "effects_text") if obj is not None else names

    @display(description="state", ordering="state", label=COLORS)
    def state_label(self, row: PriceDraft) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(row.state), value_text(row.state)

    @admin.display(description="prices")
    def prices_text(self, row: PriceDraft) -> str:
        """Return a line for each price, as the form takes it."""
        named = clusters_named(price.get("cluster") for price in row.prices)
        return "\n".join(_text(price, named) for price in row.prices)

    @admin.display(description="effects")
    def effects_text(self, row: PriceDraft) -> str:
        """Return what changes for each organization on the month's use."""
        currency = row.price_book.currency
        return "\n".join(
            gettext("{organization}: {after} instead of {before} in {month}").format(
                organization=effect["organization"],
                after=figure(effect["after"]),
                before=figure(f"{effect['before']} {currency}"),
                month=row.month,
            )
            for effect in row.effects
        )

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> PriceDraft:
        """Propose prices."""
        return draft_prices(
            price_book=fields["price_book"],
            prices=fields["lines"],
            valid_from=fields["valid_from"],
            reason=fields["reason"],
            actor=actor,
            at=at,
        )

    @admin.action(description="Publish", permissions=["write"])
    def publish_drafts(self, request: HttpRequest, rows: QuerySet[PriceDraft]) -> None:
        """Set the prices of the chosen drafts."""
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: publish_draft(
                draft_id=row.pk, note=note, is_four_eyes=settings.FOUR_EYES, actor=actor, at=at
            ),
            done=gettext_noop("is published"),
        )

    @admin.action(description="Reject", permissions=["write"])
    def reject_drafts(self, request: HttpRequest, rows: QuerySet[PriceDraft]) -> None:
        """Turn the chosen drafts down for the reason given."""
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: reject_draft(draft_id=row.pk, note=note, actor=actor, at=at),
            done=gettext_noop("is rejected"),
        )


def _text(price: Mapping[str, str], named: Mapping[str | None, Cluster]) -> str:
    cluster = f"{ON_CLUSTER}{named[price['cluster']].slug}" if "cluster" in price else ""
    band = f"{IN_BAND}{price['band']}" if "band" in price else ""
    parts = (price["size"], price["price_group"], price["unit_price"], cluster, band)
    return " ".join(part for part in parts if part)


def _price(words: list[str], clusters: Mapping[str, UUID]) -> DraftedPrice:
    if len(words) not in PARTS_OF_A_LINE:
        raise forms.ValidationError(
            gettext('Not size, group and price: "{line}"').format(line=" ".join(words))
        )
    size, group, price, *more = words
    named = _marked(more, ON_CLUSTER)
    bands = _marked(more, IN_BAND)
    replaced = [word for word in more if not word.startswith((ON_CLUSTER, IN_BAND))]
    if max(len(named), len(bands), len(replaced)) > 1:
        raise forms.ValidationError(
            gettext('More than one cluster, band or id: "{line}"').format(line=" ".join(words))
        )
    if unknown := [slug for slug in named if slug not in clusters]:
        raise forms.ValidationError(gettext('Not a cluster: "{word}"').format(word=unknown[0]))
    try:
        unit_price = Decimal(price)
        replaces = UUID(replaced[0]) if replaced else None
    except InvalidOperation as error:
        raise forms.ValidationError(gettext('Not a price: "{word}"').format(word=price)) from error
    except ValueError as error:
        raise forms.ValidationError(
            gettext('Not the id of a price: "{word}"').format(word=replaced[0])
        ) from error
    return DraftedPrice(
        size,
        group,
        unit_price,
        replaces,
        cluster=clusters[named[0]] if named else None,
        band=bands[0] if bands else ANY_TIME,
    )


def _marked(words: list[str], mark: str) -> list[str]:
    """Return what follows a mark in the words that have it."""
    return [word.removeprefix(mark) for word in words if word.startswith(mark)]
