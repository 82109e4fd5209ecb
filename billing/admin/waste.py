"""The admin page "Waste": what is held and not used, by what it would save."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from billing.access import savings_visible_to
from billing.domain.money import Money
from billing.selectors.waste import SavingTotal, WasteMoney, money_of, saving_totals, with_money
from metering.domain.waste_rules import WasteRule, thresholds_of
from metering.domain.words import percent_words
from quotas.access import limits_visible_to
from quotas.selectors.hoarding import HoardedQuota, hoarded_quotas
from tenants.admin.base import actor_of_request
from tenants.domain.actors import Actor

TEMPLATE: Final = "admin/billing/charge/waste.html"
ROWS_MAX: Final = 100
"""The most money stands first; the rest is behind the list of findings."""
RULE_WORDS: Final = {
    WasteRule.NOT_RUNNING: "Never started",
    WasteRule.IDLE: "Idle",
    WasteRule.MEMORY_PARKED: "Memory parked",
    WasteRule.IMBALANCED: "Some GPUs idle",
    WasteRule.LOW_USE: "Low use",
    WasteRule.LOW_USE_DAY: "Low use of a day",
    WasteRule.OVERSIZED: "Too large",
}


@dataclass(frozen=True)
class WasteLine:
    """One row of the page; `finding` is a row of `with_money`."""

    finding: Any
    money: WasteMoney

    @property
    def rule(self) -> str:
        """Return the rule as people say it."""
        return RULE_WORDS[WasteRule(self.finding.rule)]

    @property
    def monthly(self) -> str:
        """Return what a month would save."""
        return self._words(self.money.monthly)

    @property
    def lost(self) -> str:
        """Return what was lost so far."""
        return self._words(self.money.lost)

    @property
    def suggestion(self) -> str:
        """Return what would serve; "" for giving it back."""
        units, group = self.finding.suggested_units, self.finding.suggested_price_group
        if units and not self.finding.wasted_unit_seconds:
            is_known = self.finding.is_saving_known
            return "nothing smaller" if is_known else "unknown: no memory figure"
        return f"{units} \N{MULTIPLICATION SIGN} {group}" if units else ""

    @property
    def link(self) -> str:
        """Return where the finding is looked at and dismissed."""
        query = f"?q={self.finding.pod_name}&state__exact=open"
        return reverse("admin:metering_wastefinding_changelist") + query

    @property
    def activity(self) -> str:
        """Return how busy its devices were."""
        return percent_words(self.finding.activity_ratio)

    def _words(self, money: Money | None) -> str:
        """Return an amount, or why there is none."""
        if not self.finding.is_saving_known:
            return "unknown"
        return money_words(money) or "no price"


def money_words(money: Money | None) -> str:
    """Return an amount as "1,234.50 EUR"; "" for none."""
    return "" if money is None else f"{money.amount:,} {money.currency}"


def waste_page(request: HttpRequest, *, context: dict[str, Any]) -> TemplateResponse:
    """Return the page for the signed-in person."""
    actor, at = actor_of_request(request), timezone.now()
    findings = savings_visible_to(actor).filter(state="open")
    return TemplateResponse(
        request,
        TEMPLATE,
        {
            **context,
            "lines": _lines(findings, at=at),
            "totals": [_total(total) for total in saving_totals(findings, at=at)],
            "rows_max": ROWS_MAX,
            "hoarding": _hoarding(actor, at=at),
        },
    )


def _lines(findings: QuerySet[Any], *, at: datetime) -> list[WasteLine]:
    rows = with_money(findings, at=at).select_related("organization", "project", "cluster")
    return [WasteLine(finding, money_of(finding)) for finding in rows[:ROWS_MAX]]


def _total(total: SavingTotal) -> dict[str, Any]:
    return {
        "findings": total.findings,
        "unknown": total.unknown,
        "is_all_unknown": total.unknown == total.findings,
        "monthly": money_words(total.monthly),
        "lost": money_words(total.lost),
    }


def _hoarding(actor: Actor, *, at: datetime) -> tuple[HoardedQuota, ...]:
    thresholds = thresholds_of(settings.WASTE_THRESHOLDS)
    return hoarded_quotas(limits_visible_to(actor), at=at, thresholds=thresholds)
