"""Correcting a record of a sealed hour on its page: the change, the bill, and the request."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest
from django.http.response import HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.translation import gettext, gettext_lazy
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget

from metering.access import WRITE_CORRECTION, access_usage_record
from metering.adapters import held_costs
from metering.admin.binding import held_cost_text, months_text
from metering.domain.collection.windows import WindowState
from metering.domain.figures import unit_hours_text
from metering.models import UsageRecord
from metering.protocols.held_costs import HeldUse, total_of
from metering.services.corrections.review import ask_correction, preview_correction
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.notes import NoteForm, note_of
from tenants.admin.refusals import refusal_texts
from tenants.domain.errors import DomainError
from tenants.domain.identity.roles import RoleScope
from tenants.templatetags.texts import figure, who_may_text

CORRECTION_PAGE: Final = "admin:metering_usagecorrection_change"
UNIT_SECONDS_MAX: Final = 10**12
RETRACT: Final = "retract"
CHANGE: Final = "change"


class RecordCorrectionForm(forms.Form):
    """By how much a record is corrected."""

    correction = forms.ChoiceField(
        label=gettext_lazy("Correction"),
        choices=[
            (RETRACT, gettext_lazy("Take all of it away")),
            (CHANGE, gettext_lazy("Add or take away unit-seconds")),
        ],
        widget=UnfoldAdminSelectWidget,
    )
    unit_seconds = forms.IntegerField(
        label=gettext_lazy("Unit-seconds"),
        required=False,
        min_value=-UNIT_SECONDS_MAX,
        max_value=UNIT_SECONDS_MAX,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=gettext_lazy(
            "One unit for an hour is 3600; a minus sign takes away. Empty to take all away."
        ),
    )

    def clean(self) -> dict[str, Any]:
        """Take either a number or all there is."""
        filled = super().clean() or {}
        is_retraction = filled.get("correction") == RETRACT
        if not self.errors and is_retraction == (filled.get("unit_seconds") is not None):
            text = gettext("Give a number, or take all away and leave this empty.")
            self.add_error("unit_seconds", text)
        return filled


@dataclass(frozen=True)
class CorrectionPreview:
    """What a correction would change, as text.

    Attributes:
        difference: In unit-hours, like the others.
        cost: About what is charged for the difference; below zero where it is given back.
        bills: The months on whose bills it would be.
    """

    before: str
    difference: str
    after: str
    cost: str
    bills: str


def correction_context(
    request: HttpRequest, record: UsageRecord, *, may_write: bool
) -> dict[str, Any]:
    """Return the template's values; the form is filled by the address.

    Args:
        request: A look at the page.
        record: With its window.
        may_write: Whether the signed-in person may correct it.
    """
    context = {
        "may_correct": may_write,
        "who_corrects": who_may_text(WRITE_CORRECTION, reach={RoleScope.PLATFORM}),
        "is_sealed": record.window.state == WindowState.SEALED,
        "is_four_eyes": settings.FOUR_EYES,
    }
    if not may_write:
        return context
    form = RecordCorrectionForm(request.GET if "correction" in request.GET else None)
    context |= {"correction_form": form, "correction_note": NoteForm()}
    if not form.is_bound or not form.is_valid():
        return context
    try:
        context["correction_preview"] = _preview(record, form.cleaned_data["unit_seconds"])
    except DomainError as error:
        form.add_error(None, format_html_join(" ", "{}", ((one,) for one in refusal_texts(error))))
    return context


def press_correction(
    page: LedgerAdmin, request: HttpRequest, record: UsageRecord
) -> HttpResponseRedirect:
    """Request the correction that was sent; back on the page where it is refused.

    Raises:
        ForbiddenError: The actor may read the record, and correct none.
    """
    actor, at = actor_of_request(request), timezone.now()
    found = access_usage_record(actor, record.pk, WRITE_CORRECTION)
    form = RecordCorrectionForm(request.POST)
    if form.is_valid():
        try:
            made = ask_correction(
                record=found,
                unit_seconds=form.cleaned_data["unit_seconds"],
                reason=note_of(request),
                is_four_eyes=settings.FOUR_EYES,
                actor=actor,
                at=at,
            )
        except DomainError as error:
            page.audit_refusal(error, object_id=record.pk, actor=actor, at=at)
            page.report_refusal(request, error)
        else:
            done = gettext("is proposed") if settings.FOUR_EYES else gettext("is posted")
            page.message_user(request, f"{made} {done}.", messages.SUCCESS)
            return HttpResponseRedirect(reverse(CORRECTION_PAGE, args=[made.pk]))
    chosen = {name: request.POST.get(name, "") for name in form.fields}
    return HttpResponseRedirect(f"{request.path}?{urlencode(chosen)}")


def _preview(record: UsageRecord, unit_seconds: int | None) -> CorrectionPreview:
    line = preview_correction(record=record, unit_seconds=unit_seconds)
    before, difference = line["basis"], line["unit_seconds"]
    prices = held_costs(settings.HELD_COSTS)
    use = HeldUse(
        cluster_id=record.cluster_id,
        organization_id=record.organization_id,
        size=line["size"],
        price_group=line["price_group"],
        last_start=record.window_start,
        unit_seconds=difference,
        pod_seconds=difference,
    )
    months = prices.bills_of(
        record.organization_id, first_start=record.window_start, last_start=record.window_start
    )
    return CorrectionPreview(
        before=figure(unit_hours_text(before)),
        difference=figure(unit_hours_text(difference)),
        after=figure(unit_hours_text(before + difference)),
        cost=held_cost_text(total_of(prices.costs_of([use]))),
        bills=months_text(months),
    )
