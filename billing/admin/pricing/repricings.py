"""Admin pages of repricings: the preview of a month at its right prices, and its approval."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_noop
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextInputWidget

from billing.admin.amounts import hours_text, number_text
from billing.domain.money import Money
from billing.domain.pricing.repricing import PriceChange
from billing.models import Repricing, RepricingState
from billing.services.repricing import approve_repricing, reject_repricing, reprice_period
from tenants.admin.base import ServiceAdmin, ServiceForm
from tenants.admin.notes import NOTE_LENGTH_MAX, NoteActionForm, note_of
from tenants.domain.actors import Actor
from tenants.templatetags.texts import figure, value_text

COLORS = {
    RepricingState.PROPOSED.value: "warning",
    RepricingState.POSTED.value: "success",
    RepricingState.REJECTED.value: "info",
}


class RepricingForm(ServiceForm):
    """Which month is repriced, and why."""

    reason = forms.CharField(max_length=NOTE_LENGTH_MAX, widget=UnfoldAdminTextInputWidget())


@admin.register(Repricing)
class RepricingAdmin(ServiceAdmin):
    """What months were charged at wrong prices."""

    form = RepricingForm
    view_capability = "billing:period:read"
    write_capability = "billing:price:write"
    undecided = RepricingState.PROPOSED.value
    approving = "approve_repricings"
    hint = (
        "Replace the wrong price first; then add a repricing of the month, or choose months under "
        "Billing periods. Another person opens it, checks the changes and approves it. It cannot "
        "be undone; prices can be repaired again."
    )
    action_form = NoteActionForm
    actions = ("approve_repricings", "reject_repricings")
    add_fields = ("period", "reason")
    list_display = (
        "period",
        "state_label",
        "difference_text",
        "reason",
        "requested_by",
        "decided_by",
    )
    list_filter = ("state", "organization")
    list_select_related = ("period__organization",)
    search_fields = ("reason", "period__label", "organization__name", "organization__slug")
    autocomplete_fields = ("period",)
    ordering = ("-requested_at",)

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        """Return the form's fields, or a repricing's with its changes as text."""
        if obj is None:
            return super().get_fields(request, obj)
        return [
            "period",
            "state",
            "reason",
            "difference_text",
            "changes_text",
            "requested_by",
            "requested_at",
            "decided_by",
            "decided_at",
            "decision_note",
        ]

    def get_readonly_fields(
        self, request: HttpRequest, obj: Model | None = None
    ) -> tuple[str, ...]:
        """Return what a form shows without letting it be changed."""
        names = super().get_readonly_fields(request, obj)
        return (*names, "changes_text", "difference_text") if obj is not None else names

    @display(description="state", ordering="state", label=COLORS)
    def state_label(self, row: Repricing) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(row.state), value_text(row.state)

    @admin.display(description="difference")
    def difference_text(self, row: Repricing) -> str:
        """Return the cost before and after, and what is charged in addition."""
        before, after = (_text(amount, row.currency) for amount in (row.before, row.after))
        difference = _text(row.after - row.before, row.currency)
        return gettext("{difference} ({before} to {after})").format(
            difference=f"{difference} {row.currency}", before=before, after=after
        )

    @admin.display(description="changes")
    def changes_text(self, row: Repricing) -> str:
        """Return a sentence for each price that changes."""
        return "\n".join(
            _sentence(PriceChange.of_json(change), currency=row.currency) for change in row.changes
        )

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> Repricing:
        """Preview a month at its published prices."""
        return reprice_period(
            period_id=fields["period"].pk,
            reason=fields["reason"],
            is_four_eyes=settings.FOUR_EYES,
            actor=actor,
            at=at,
        )

    @admin.action(description="Approve", permissions=["write"])
    def approve_repricings(self, request: HttpRequest, rows: QuerySet[Repricing]) -> None:
        """Post the chosen repricings."""
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: approve_repricing(
                repricing_id=row.pk,
                note=note,
                is_four_eyes=settings.FOUR_EYES,
                actor=actor,
                at=at,
            ),
            done=gettext_noop("is posted"),
        )

    @admin.action(description="Reject", permissions=["write"])
    def reject_repricings(self, request: HttpRequest, rows: QuerySet[Repricing]) -> None:
        """Turn the chosen repricings down for the reason given."""
        note = note_of(request)
        self.for_each(
            request,
            rows,
            lambda row, actor, at: reject_repricing(
                repricing_id=row.pk, note=note, actor=actor, at=at
            ),
            done=gettext_noop("is rejected"),
        )


def _sentence(change: PriceChange, *, currency: str) -> str:
    before, after = change.before(currency).amount, change.after(currency).amount
    return gettext(
        "{project}: {hours} unit-hours of {what}, at {right_price} instead of {price}: {after} "
        "instead of {before}"
    ).format(
        project=change.project,
        hours=hours_text(change.unit_seconds),
        what=f"{change.size}, {change.price_group}",
        right_price=figure(f"{change.right_price.normalize():f}"),
        price=figure(f"{change.unit_price.normalize():f} {currency}"),
        after=number_text(str(after)),
        before=number_text(str(before)),
    )


def _text(amount: Decimal, currency: str) -> str:
    return number_text(str(Money(amount, currency).amount))
