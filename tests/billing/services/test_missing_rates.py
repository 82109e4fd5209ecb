"""Months whose documents lack a tax rate are blocked exactly where drafting them is refused."""

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal

import pytest

from billing.domain.documents.taxes import TaxTerms
from billing.domain.errors import TaxRateMissingError
from billing.domain.pricing.minimum import MinimumRule
from billing.models import BillingPeriod, Invoice, Recipient, TaxRate
from billing.selectors.months import month_board
from billing.services.ledger.notices import report_blocked_months
from billing.services.periods import open_current_periods
from billing.services.pricing.minimums import publish_minimum
from billing.services.routing import create_recipient, set_route
from billing.services.taxes import (
    set_tax_rate,
    set_tax_treatment,
    withdraw_tax_rate,
    withdraw_tax_treatment,
)
from tenants.domain.identity.roles import Role
from tenants.models import Notification, Project
from tests.support.billing.late import draft
from tests.support.billing.ledger import DORA, TICK, Ledger, month_of_use
from tests.support.builders import AT, MONTH_END, MONTH_START, grant, make_user

pytestmark = pytest.mark.django_db
JANUARY = date(2026, 1, 1)
GERMAN = "no tax rate of DE, category S, on 2026-10-31"
AUSTRIAN = "no tax rate of AT, category S, on 2026-10-31"
Step = Callable[[Ledger], object]


def treat(ledger: Ledger, category: str = "S", since: date = JANUARY) -> None:
    set_tax_treatment(
        organization=ledger.organization,
        country="DE",
        category=category,
        valid_from=since,
        actor=DORA,
        at=AT,
    )


def rate(country: str = "DE", since: date = JANUARY) -> TaxRate:
    terms = TaxTerms(country=country, category="S", rate=Decimal(19), exemption_text="")
    return set_tax_rate(terms=terms, valid_from=since, actor=DORA, at=AT)


def bill(project: Project, country: str) -> Recipient:
    """Have a project billed to a recipient that is taxed in a country of its own."""
    recipient = create_recipient(
        organization=project.organization,
        fields={
            "slug": "physics",
            "name": "Physics",
            "tax_country": country,
            "tax_category": "S",
        },
        actor=DORA,
        at=AT,
    )
    set_route(project=project, recipient=recipient, actor=DORA, at=AT)
    return recipient


def withdraw(made: TaxRate) -> None:
    withdraw_tax_rate(rate_id=made.pk, reason="Mistyped.", actor=DORA, at=AT)


def untreat(ledger: Ledger) -> None:
    treat(ledger)
    (treatment,) = ledger.organization.tax_treatments.all()
    withdraw_tax_treatment(treatment_id=treatment.pk, reason="Exempt.", actor=DORA, at=AT)


def demand(ledger: Ledger) -> None:
    publish_minimum(
        organization=ledger.organization,
        rule=MinimumRule(amount=Decimal(5), first_month="2026-10"),
        actor=DORA,
        at=AT,
    )


SETUPS: dict[str, tuple[tuple[Step, ...], str]] = {
    "nothing says how it is taxed": ((), ""),
    "a rate that is there": ((treat, lambda _: rate()), ""),
    "no rate at all": ((treat,), GERMAN),
    "a rate of another country": ((treat, lambda _: rate("AT")), GERMAN),
    "a rate that begins a day too late": (
        (treat, lambda _: rate(since=date(2026, 11, 1))),
        GERMAN,
    ),
    "a rate that was withdrawn": ((treat, lambda _: withdraw(rate())), GERMAN),
    "a treatment that begins later": (
        (lambda ledger: treat(ledger, since=date(2026, 11, 1)),),
        "",
    ),
    "a treatment that was withdrawn": ((untreat,), ""),
    "a recipient whose country has no rate": (
        (treat, lambda _: rate(), lambda ledger: bill(ledger.llm, "AT")),
        AUSTRIAN,
    ),
    "a recipient whose country has one": (
        (treat, lambda _: rate("AT"), lambda ledger: bill(ledger.llm, "AT")),
        "",
    ),
    "a recipient of a project without use": (
        (treat, lambda _: rate(), lambda ledger: bill(ledger.vision, "AT")),
        "",
    ),
    "a minimum charge beside use of another project": (
        (treat, lambda _: rate(), lambda ledger: bill(ledger.vision, "AT"), demand),
        "",
    ),
}


def board_text() -> str:
    (month,) = month_board("2026-10", ended_by=MONTH_END + timedelta(hours=7))
    assert month.is_blocked == bool(month.untaxed)
    return month.untaxed


@pytest.mark.parametrize("setup", SETUPS)
def test_a_month_is_blocked_where_drafting_it_is_refused(setup: str) -> None:
    ledger = month_of_use([("llm", 3600)])
    steps, text = SETUPS[setup]
    for step in steps:
        step(ledger)

    assert board_text() == text
    if text:
        with pytest.raises(TaxRateMissingError):
            draft(ledger.organization, "2026-10")
        assert not Invoice.objects.exists()
    else:
        assert draft(ledger.organization, "2026-10").state == "draft"


@pytest.mark.parametrize(("billed", "text"), [("llm", AUSTRIAN), ("vision", "")])
def test_without_use_the_oldest_project_is_billed_a_minimum_charge(billed: str, text: str) -> None:
    ledger = month_of_use([])
    open_current_periods(actor=TICK, at=MONTH_START)
    treat(ledger)
    rate()
    bill(ledger.organization.projects.get(slug=billed), "AT")
    demand(ledger)

    assert board_text() == text
    if text:
        with pytest.raises(TaxRateMissingError):
            draft(ledger.organization, "2026-10")
    else:
        assert draft(ledger.organization, "2026-10").total == 5


def test_a_minimum_charge_of_another_organization_blocks_nothing() -> None:
    demand(month_of_use([], "umbrella"))
    open_current_periods(actor=TICK, at=MONTH_START)
    ledger = month_of_use([("llm", 3600)])
    treat(ledger)
    rate()
    bill(ledger.vision, "AT")

    months = month_board("2026-10", ended_by=MONTH_END + timedelta(hours=7))

    assert {month.slug: month.untaxed for month in months} == {"acme": "", "umbrella": ""}


def test_both_missing_rates_of_a_month_are_named() -> None:
    ledger = month_of_use([("llm", 3600), ("vision", 60)])
    treat(ledger)
    bill(ledger.vision, "AT")

    assert board_text() == ("no tax rate of AT, category S, and DE, category S, on 2026-10-31")


def test_a_month_in_review_is_not_looked_at_again() -> None:
    ledger = month_of_use([("llm", 3600)])
    treat(ledger)
    BillingPeriod.objects.filter(label="2026-10").update(state="review")

    assert board_text() == ""


def test_the_notice_of_blocked_months_says_which_rate_is_missing() -> None:
    dora = make_user("dora")
    grant(dora, Role.FINANCE_ADMIN)
    treat(month_of_use([("llm", 3600)]))

    assert report_blocked_months(at=MONTH_END + timedelta(hours=7)) == 1

    notice = Notification.objects.get()
    assert f"Acme (acme): {GERMAN}." in notice.text
    assert notice.facts["organizations"] == [{"organization": "acme", "reasons": ["taxes"]}]
