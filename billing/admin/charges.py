"""Admin pages that are only read: charges, accrued windows, unpriced usage, and waste."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Final

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.translation import gettext, gettext_noop
from django.views.decorators.http import require_safe
from unfold.decorators import action

from billing.access import charges_visible_to, savings_visible_to
from billing.admin.amounts import hours_text, money_text, number_text, saving_text
from billing.admin.invoice_lines import charge_origin
from billing.admin.ledger.invoice_steps import reach
from billing.admin.pricing.unpriced import unpriced_context
from billing.domain.documents.document import price_text
from billing.domain.money import Money
from billing.models import (
    AccrualException,
    AccruedCorrection,
    AccruedWindow,
    Charge,
    InvoiceSeries,
    PeriodState,
)
from billing.selectors.documents.line_charges import charge_of_use
from billing.selectors.waste import SavingTotal, WasteMoney, money_of, saving_totals, with_money
from metering.access import access_usage_record
from metering.domain.catalogue.units import GPUSize
from metering.domain.efficiency.rules import WasteRule, thresholds_of
from metering.domain.figures import percent_text
from metering.selectors.collection.records import use_of_record
from quotas.access import limits_visible_to
from quotas.selectors.headroom.forecast import HoardedQuota, hoarded_quotas
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.admin.lists import MarkFilter
from tenants.domain.actors import Actor
from tenants.domain.currencies import MINOR_DIGITS
from tenants.templatetags.texts import figure

TEMPLATE: Final = "admin/billing/charge/waste.html"
ROWS_MAX: Final = 40
"""The largest amounts; the list of findings has the rest."""
RULE_WORDS: Final = {
    WasteRule.NOT_RUNNING: gettext_noop("Never started"),
    WasteRule.IDLE: gettext_noop("Idle"),
    WasteRule.MEMORY_PARKED: gettext_noop("Memory parked"),
    WasteRule.IMBALANCED: gettext_noop("Some GPUs idle"),
    WasteRule.LOW_USE: gettext_noop("Low use"),
    WasteRule.LOW_USE_DAY: gettext_noop("Low use of a day"),
    WasteRule.OVERSIZED: gettext_noop("Too large"),
}


@dataclass(frozen=True)
class WasteLine:
    """One row of the page; `finding` is a row of `with_money`."""

    finding: Any
    money: WasteMoney

    @property
    def rule(self) -> str:
        """Return the rule as people say it."""
        return gettext(RULE_WORDS[WasteRule(self.finding.rule)])

    @property
    def monthly(self) -> str:
        """Return what a month would save."""
        return self._text(self.money.monthly, self.finding.monthly_product)

    @property
    def lost(self) -> str:
        """Return what was lost so far."""
        return self._text(self.money.lost, self.finding.lost_product)

    @property
    def suggestion(self) -> str:
        """Return what would serve; "" for giving it back."""
        units, group = self.finding.suggested_units, self.finding.suggested_price_group
        if units and not self.finding.wasted_unit_seconds:
            is_known = self.finding.is_saving_known
            return gettext("nothing smaller") if is_known else gettext("unknown: no memory figure")
        return f"{units} \N{MULTIPLICATION SIGN} {group}" if units else ""

    @property
    def link(self) -> str:
        """Return the link to the finding's page, where it can be dismissed."""
        query = f"?q={self.finding.pod_name}&state__exact=open"
        return reverse("admin:metering_wastefinding_changelist") + query

    @property
    def activity(self) -> str:
        """Return how busy its devices were."""
        return figure(percent_text(self.finding.activity_ratio))

    def _text(self, money: Money | None, product: Decimal | None) -> str:
        """Return an amount, or why there is none."""
        if not self.finding.is_saving_known:
            return gettext("unknown")
        return saving_text(money, product) or gettext("no price")


def waste_page(request: HttpRequest, *, context: dict[str, Any]) -> TemplateResponse:
    """Return the page for the signed-in person."""
    actor, at = actor_of_request(request), timezone.now()
    findings = savings_visible_to(actor).filter(state="open")
    hoarding = _hoarding(actor, at=at)
    return TemplateResponse(
        request,
        TEMPLATE,
        {
            **context,
            "lines": _lines(findings, at=at),
            "totals": [_total(total) for total in saving_totals(findings, at=at)],
            "rows_max": ROWS_MAX,
            "hoarding": hoarding[:ROWS_MAX],
            "hoarding_more": max(0, len(hoarding) - ROWS_MAX),
        },
    )


def _lines(findings: QuerySet[Any], *, at: datetime) -> list[WasteLine]:
    rows = with_money(findings, at=at).select_related("organization", "project", "cluster")
    return [WasteLine(finding, money_of(finding)) for finding in rows[:ROWS_MAX]]


def _total(total: SavingTotal) -> dict[str, Any]:
    return {
        "title": gettext("Findings, {currency}").format(currency=total.currency)
        if total.currency
        else gettext("Findings without a price"),
        "findings": total.findings,
        "unknown": total.unknown,
        "monthly": saving_text(total.monthly, total.monthly_product),
        "lost": saving_text(total.lost, total.lost_product),
    }


def _hoarding(actor: Actor, *, at: datetime) -> tuple[HoardedQuota, ...]:
    thresholds = thresholds_of(settings.WASTE_THRESHOLDS)
    return hoarded_quotas(limits_visible_to(actor), at=at, thresholds=thresholds)


@admin.register(Charge)
class ChargeAdmin(LedgerAdmin):
    """Sealed use with its price pinned."""

    view_capability = "billing:charge:read"
    hint = "Charges come from sealed windows; the database refuses to change or delete one."
    list_display = (
        "window_start",
        "organization",
        "project",
        "owner",
        "size",
        "price_group",
        "unit_hours",
        "price_with_currency",
        "cost",
        "is_correction",
        "is_billed",
    )
    list_filter = (
        "organization",
        "size",
        "period__label",
        ("correction_id", MarkFilter),
        "period__state",
    )
    list_select_related = ("organization", "project", "period")
    search_fields = ("owner", "project__slug", "price_group")
    day_column = "window_start"
    ordering = ("-id",)
    filter_values: ClassVar[Mapping[str, Iterable[str]]] = {"size": GPUSize}
    actions_list = ("waste",)
    change_form_before_template = "admin/billing/charge/origin.html"

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Return the way from a usage record to its charge, before the pages of every table."""
        own = path(
            "of-record/<int:record_id>/",
            self.admin_site.admin_view(self.open_charge_of),
            name="billing_charge_of_record",
        )
        return [own, *super().get_urls()]

    @method_decorator(require_safe)
    def open_charge_of(self, request: HttpRequest, record_id: int) -> HttpResponse:
        """Go to the newest charge of a usage record; back to it while there is none."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        actor = actor_of_request(request)
        record = reach(lambda: access_usage_record(actor, record_id))
        charge = charge_of_use(charges_visible_to(actor), use_of_record(record))
        if charge is None:
            text = gettext(
                "The record is not charged yet: its hour is not sealed, or it has no price."
            )
            self.message_user(request, text, messages.WARNING)
            back = reverse("admin:metering_usagerecord_change", args=[record_id])
            return HttpResponseRedirect(back)
        return HttpResponseRedirect(reverse("admin:billing_charge_change", args=[charge.pk]))

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of a charge, with the line it is on and the pods it is of."""
        charge = self.get_object(request, object_id)
        actor = actor_of_request(request)
        origin = charge and charge_origin(charge, actor)
        context = {"origin": origin, **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)

    @action(description="Waste", url_path="waste", permissions=["view"], icon="savings")
    def waste(self, request: HttpRequest) -> TemplateResponse:
        """Show what is held and not used, by what it would save."""
        return waste_page(request, context=self.page_context(request, title=gettext("Waste")))

    @admin.display(description="unit-hours")
    def unit_hours(self, charge: Charge) -> str:
        """Return the quantity as printed."""
        return hours_text(charge.unit_seconds)

    @admin.display(description="price")
    def price_with_currency(self, charge: Charge) -> str:
        """Return the pinned price."""
        digits = MINOR_DIGITS.get(charge.currency, 0)
        price = price_text(charge.unit_price, digits=digits)
        return f"{number_text(price)} {charge.currency}"

    @admin.display(description="cost")
    def cost(self, charge: Charge) -> str:
        """Return what it costs alone, rounded."""
        return money_text(charge.cost.amount, charge.cost.currency)

    @admin.display(description="correction", boolean=True)
    def is_correction(self, charge: Charge) -> bool:
        """Whether it charges a correction of the hour."""
        return charge.correction_id is not None

    @admin.display(description="billed", boolean=True)
    def is_billed(self, charge: Charge) -> bool:
        """Whether it is on a final invoice."""
        return charge.period.state == PeriodState.CLOSED


@admin.register(AccrualException)
class AccrualExceptionAdmin(LedgerAdmin):
    """Sealed use that has no price."""

    view_capability = "billing:charge:read"
    hint = (
        "Use without a price is not billed, and its invoice waits. Follow the remedy; it is "
        "priced again within minutes."
    )
    list_display = (
        "window_start",
        "organization",
        "project",
        "size",
        "price_group",
        "unit_hours",
        "remedy",
        "resolved_at",
    )
    day_column = "window_start"
    list_filter = (("resolved_at", MarkFilter), "code", "organization", "size")
    list_select_related = ("organization", "project")
    search_fields = ("project__slug", "price_group", "summary")
    list_before_template = "admin/billing/accrualexception/unpriced.html"

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Return the list; above it one row for each remedy, unless some of it is asked for."""
        is_whole = not request.GET and self.has_view_permission(request)
        above = unpriced_context(actor_of_request(request)) if is_whole else {"overview": None}
        titled = {"title": gettext("Unpriced usage"), **above, **(extra_context or {})}
        return super().changelist_view(request, titled)

    @admin.display(description="unit-hours")
    def unit_hours(self, exception: AccrualException) -> str:
        """Return the quantity as printed."""
        return hours_text(exception.unit_seconds)


@admin.register(AccruedWindow)
class AccruedWindowAdmin(LedgerAdmin):
    """Which sealed windows are charged."""

    view_capability = "metering:window:read"
    hint = "A window is complete when every unit-second of it is charged."
    list_display = (
        "window_start",
        "cluster",
        "usage_unit_seconds",
        "charged_unit_seconds",
        "is_complete",
        "accrued_at",
    )
    list_filter = ("is_complete", "cluster")
    list_select_related = ("cluster",)
    day_column = "window_start"


@admin.register(AccruedCorrection)
class AccruedCorrectionAdmin(LedgerAdmin):
    """Which posted usage corrections are charged."""

    view_capability = "billing:charge:read"
    hint = "A correction is charged at the price of its own hour, into a month that is open."
    list_display = (
        "window_start",
        "organization",
        "usage_unit_seconds",
        "charged_unit_seconds",
        "is_complete",
        "accrued_at",
    )
    list_filter = ("is_complete", "organization")
    list_select_related = ("organization",)
    day_column = "window_start"


@admin.register(InvoiceSeries)
class InvoiceSeriesAdmin(LedgerAdmin):
    """The counters behind gapless numbers."""

    view_capability = "billing:period:read"
    hint = "The next number is taken by the last step of a finalization."
    list_display = ("code", "next_number")
