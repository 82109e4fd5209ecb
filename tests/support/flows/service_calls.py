"""Every call of every service: who does it, how, and the entries it leaves."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from billing.domain.pricing.price_draft import DraftedPrice
from billing.models import BillingPeriod, Invoice, PriceBook
from billing.services import (
    closing,
    finalizing,
    invoicing,
    periods,
    repricing,
)
from billing.services.pricing import assignments, price_drafts, price_history, prices
from quotas.services.admission import secrets as webhook_secrets
from quotas.services.enforcement import applying as enforcement_by_hand
from quotas.services.limits import grants, limits, suspensions
from quotas.services.limits import grants as grant_ends
from quotas.services.requests import deciding as requests
from simulator.adapters.quota_enforcer import SimulatedQuotaEnforcer
from tenants.domain.actors import Actor
from tenants.models import Cluster
from tenants.selectors.actors import actor_of_user
from tests.support.billing.site import SITE_TERMS
from tests.support.flows.estate import IN_FORCE_FROM, Estate
from tests.support.flows.export_calls import EXPORT_DEEDS
from tests.support.flows.fair_use import LOAN_DEEDS
from tests.support.flows.isolation_calls import ISOLATION_DEEDS
from tests.support.flows.ledger_calls import LEDGER_DEEDS
from tests.support.flows.metering_calls import METERING_DEEDS
from tests.support.flows.preemption_calls import PREEMPTION_DEEDS
from tests.support.flows.request_calls import REQUEST_DEEDS
from tests.support.flows.tenants_calls import TENANTS_DEEDS
from tests.support.flows.terms_calls import TERMS_DEEDS

Does = Callable[[Estate, Any], object]


def _acmes_month(estate: Estate, **state: str) -> UUID:
    months = BillingPeriod.objects.filter(organization=estate.cast.acme, label="2026-10")
    months.update(**state)
    return months.get().pk


_IN_REVIEW = {"state": "review", "reviewed_by_id": "0", "reviewed_by_kind": "person"}


def frank(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.frank)


def dora(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.dora)


def bob(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.bob)


def request_of(estate: Estate) -> object:
    return estate.places["own"]["quota-requests"]


def _end_a_secret(_: Estate, who: Any) -> object:  # noqa: ANN401 - Actor and time.
    cluster = Cluster.objects.get(slug="hopper")
    webhook_secrets.add_webhook_secret(cluster=cluster, secret="t" * 43, **who)
    return webhook_secrets.end_webhook_secrets(cluster=cluster, is_newest_kept=False, **who)


DEEDS: dict[str, tuple[Callable[[Estate], Actor], Does, list[tuple[str, str | None]]]] = {
    "billing.pricing.prices.create_price_book": (
        dora,
        lambda _, who: prices.create_price_book(slug="new", name="New", currency="EUR", **who),
        [("billing:price_book:create", None)],
    ),
    "billing.pricing.prices.set_price": (
        dora,
        lambda _, who: prices.set_price(
            price_book=PriceBook.objects.earliest("pk"),
            size="small",
            unit_price=Decimal(3),
            valid_from=IN_FORCE_FROM + timedelta(days=1),
            **who,
        ),
        [("billing:price:set", None)],
    ),
    "billing.pricing.assignments.assign_price_book": (
        dora,
        lambda e, who: assignments.assign_price_book(
            organization=e.cast.acme,
            price_book=PriceBook.objects.latest("pk"),
            valid_from=IN_FORCE_FROM + timedelta(days=1),
            **who,
        ),
        [("billing:price_book:assign", "acme")],
    ),
    "billing.pricing.price_history.withdraw_price": (
        dora,
        lambda e, who: price_history.withdraw_price(
            price_id=e.places["own"]["prices"], reason="Wrong.", **who
        ),
        [("billing:price:set", None), ("billing:price:withdraw", None)],
    ),
    "billing.pricing.price_history.withdraw_assignment": (
        dora,
        lambda e, who: price_history.withdraw_assignment(
            assignment_id=e.places["own"]["price-book-assignments"], reason="Wrong.", **who
        ),
        [("billing:price_book:assign", "acme"), ("billing:price_book:withdraw", "acme")],
    ),
    "billing.pricing.price_drafts.draft_prices": (
        dora,
        lambda _, who: price_drafts.draft_prices(
            price_book=PriceBook.objects.earliest("pk"),
            prices=[DraftedPrice("large", "*", Decimal(9))],
            valid_from=IN_FORCE_FROM,
            reason="New.",
            **who,
        ),
        [("billing:price_draft:propose", None)],
    ),
    "billing.pricing.price_drafts.publish_draft": (
        dora,
        lambda e, who: price_drafts.publish_draft(
            draft_id=e.places["own"]["price-drafts"], is_four_eyes=True, **who
        ),
        [("billing:price:set", None), ("billing:price_draft:publish", None)],
    ),
    "billing.pricing.price_drafts.reject_draft": (
        dora,
        lambda e, who: price_drafts.reject_draft(
            draft_id=e.places["own"]["price-drafts"], note="No.", **who
        ),
        [("billing:price_draft:reject", None)],
    ),
    **TERMS_DEEDS,
    "billing.repricing.reprice_period": (
        dora,
        lambda e, who: repricing.reprice_period(
            period_id=e.places["own"]["billing-periods"], reason="Wrong.", is_four_eyes=True, **who
        ),
        [("billing:repricing:propose", "acme")],
    ),
    "billing.repricing.approve_repricing": (
        dora,
        lambda e, who: repricing.approve_repricing(
            repricing_id=e.places["own"]["repricings"], is_four_eyes=True, **who
        ),
        [("billing:repricing:post", "acme")],
    ),
    "billing.repricing.reject_repricing": (
        dora,
        lambda e, who: repricing.reject_repricing(
            repricing_id=e.places["own"]["repricings"], note="No.", **who
        ),
        [("billing:repricing:reject", "acme")],
    ),
    "billing.periods.open_period": (
        dora,
        lambda e, who: periods.open_period(organization=e.cast.acme, label="2027-03", **who),
        [("billing:period:open", "acme")],
    ),
    "billing.invoicing.draft_invoice": (
        dora,
        lambda e, who: invoicing.draft_invoice(
            period_id=_acmes_month(e, state="open"), **who, terms=SITE_TERMS
        ),
        [("billing:invoice:draft", "acme")],
    ),
    "billing.invoicing.discard_draft": (
        dora,
        lambda e, who: invoicing.discard_draft(
            invoice_id=Invoice.objects.get(organization=e.cast.umbrella, state="draft").pk, **who
        ),
        [("billing:invoice:discard", "umbrella")],
    ),
    "billing.closing.review_period": (
        dora,
        lambda e, who: closing.review_period(
            period_id=_acmes_month(e, state="open"), **who, terms=SITE_TERMS
        ),
        [("billing:invoice:draft", "acme"), ("billing:period:review", "acme")],
    ),
    "billing.closing.approve_period": (
        frank,
        lambda e, who: closing.approve_period(
            period_id=_acmes_month(e, **_IN_REVIEW), **who, terms=SITE_TERMS
        ),
        [("billing:period:approve", "acme")],
    ),
    "billing.closing.reopen_period": (
        dora,
        lambda e, who: closing.reopen_period(
            period_id=_acmes_month(e, **_IN_REVIEW), reason="No.", **who
        ),
        [("billing:period:reopen", "acme")],
    ),
    "billing.finalizing.finalize_invoice": (
        dora,
        lambda e, who: finalizing.finalize_invoice(
            invoice_id=Invoice.objects.get(organization=e.cast.acme, state="draft").pk,
            **who,
            terms=SITE_TERMS,
        ),
        [("billing:invoice:finalize", "acme")],
    ),
    "quotas.limits.limits.set_limit": (
        frank,
        lambda e, who: limits.set_limit(
            scope="project",
            organization=e.cast.acme,
            project=e.cast.vision,
            size="large",
            limit_units=1,
            **who,
        ),
        [("quotas:limit:set", "acme")],
    ),
    "quotas.limits.limits.remove_limit": (
        frank,
        lambda e, who: limits.remove_limit(limit_id=e.places["other"]["quota-limits"], **who),
        [("quotas:limit:remove", "umbrella")],
    ),
    "quotas.limits.grants.grant_units": (
        frank,
        lambda e, who: grants.grant_units(limit_id=e.places["own"]["quota-limits"], units=1, **who),
        [("quotas:grant:make", "acme")],
    ),
    "quotas.limits.grants.end_grant": (
        frank,
        lambda e, who: grant_ends.end_grant(grant_id=e.places["other"]["quota-grants"], **who),
        [("quotas:grant:cancel", "umbrella")],
    ),
    "quotas.limits.suspensions.suspend_tenant": (
        dora,
        lambda e, who: suspensions.suspend_tenant(
            organization=e.cast.umbrella, reason="Arrears.", **who
        ),
        [("quotas:suspension:suspend", "umbrella")],
    ),
    "quotas.limits.suspensions.resume_tenant": (
        dora,
        lambda e, who: suspensions.resume_tenant(
            organization=e.cast.acme, project=e.cast.llm, **who
        ),
        [("quotas:suspension:resume", "acme")],
    ),
    "quotas.limits.suspensions.resume_suspension": (
        frank,
        lambda e, who: suspensions.resume_suspension(
            suspension_id=e.places["other"]["suspensions"], **who
        ),
        [("quotas:suspension:resume", "umbrella")],
    ),
    **{name: (frank, call, entries) for name, (call, entries) in LOAN_DEEDS.items()},
    "quotas.enforcement.applying.apply_again": (
        frank,
        lambda e, who: enforcement_by_hand.apply_again(
            target_ids=[e.places["own"]["enforcement-targets"]],
            enforcer=SimulatedQuotaEnforcer(),
            **who,
        ),
        [("quotas:enforcement:apply", "acme"), ("quotas:enforcement:apply_again", "acme")],
    ),
    "quotas.enforcement.applying.force_targets": (
        frank,
        lambda e, who: enforcement_by_hand.force_targets(
            target_ids=[e.places["own"]["enforcement-targets"]],
            enforcer=SimulatedQuotaEnforcer(),
            **who,
        ),
        [("quotas:enforcement:apply", "acme"), ("quotas:enforcement:force", "acme")],
    ),
    "quotas.requests.deciding.approve_request": (
        frank,
        lambda e, who: requests.approve_request(request_id=request_of(e), **who),  # type: ignore[arg-type]
        [("quotas:limit:set", "acme"), ("quotas:request:approve", "acme")],
    ),
    "quotas.requests.deciding.reject_request": (
        frank,
        lambda e, who: requests.reject_request(request_id=request_of(e), **who),  # type: ignore[arg-type]
        [("quotas:request:reject", "acme")],
    ),
    "quotas.requests.deciding.cancel_request": (
        bob,
        lambda e, who: requests.cancel_request(request_id=request_of(e), **who),  # type: ignore[arg-type]
        [("quotas:request:cancel", "acme")],
    ),
    "quotas.admission.secrets.add_webhook_secret": (
        frank,
        lambda _, who: webhook_secrets.add_webhook_secret(
            cluster=Cluster.objects.get(slug="hopper"), secret="s" * 43, **who
        ),
        [("quotas:webhook_secret:create", None)],
    ),
    "quotas.admission.secrets.end_webhook_secrets": (
        frank,
        _end_a_secret,
        [("quotas:webhook_secret:create", None), ("quotas:webhook_secret:end", None)],
    ),
    **TENANTS_DEEDS,
    **ISOLATION_DEEDS,
    **EXPORT_DEEDS,
    **LEDGER_DEEDS,
    **REQUEST_DEEDS,
    **PREEMPTION_DEEDS,
    **METERING_DEEDS,
}
"""Who does what, and the entries it leaves: action, and the organization whose trail it is."""
