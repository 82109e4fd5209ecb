"""Every call of the services of taxes and tiers, and the entries it leaves."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from billing.domain.documents.taxes import TaxTerms
from billing.domain.pricing.minimum import MinimumRule
from billing.models import CostView, CustomerClass, Issuer, PriceBook, Recipient
from billing.services import routing, showback, taxes
from billing.services.pricing import (
    customer_classes,
    minimums,
    price_calendars,
    price_history,
    tiers,
)
from tenants.domain.actors import Actor
from tenants.selectors.actors import actor_of_user
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_calendar_rule, make_rule
from tests.support.builders import AT
from tests.support.flows.estate import IN_FORCE_FROM, Estate


def dora(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.dora)


TERMS_DEEDS: dict[
    str,
    tuple[Callable[[Estate], Actor], Callable[[Estate, Any], object], list[tuple[str, str | None]]],
] = {
    "billing.pricing.customer_classes.create_customer_class": (
        dora,
        lambda _, who: customer_classes.create_customer_class(slug="new", name="New", **who),
        [("billing:customer_class:create", None)],
    ),
    "billing.pricing.customer_classes.set_customer_class": (
        dora,
        lambda e, who: customer_classes.set_customer_class(
            organization=e.cast.acme,
            customer_class=CustomerClass.objects.get(slug="academic"),
            valid_from=IN_FORCE_FROM + timedelta(days=1),
            **who,
        ),
        [("billing:customer_class:assign", "acme")],
    ),
    "billing.pricing.price_history.withdraw_membership": (
        dora,
        lambda e, who: price_history.withdraw_membership(
            membership_id=e.places["own"]["customer-class-memberships"], reason="Wrong.", **who
        ),
        [("billing:customer_class:withdraw", "acme")],
    ),
    "billing.pricing.tiers.publish_tiers": (
        dora,
        lambda _, who: tiers.publish_tiers(
            price_book=PriceBook.objects.earliest("pk"),
            rule=make_rule(first_month="2032-01", last_month="2032-12"),
            **who,
        ),
        [("billing:tier_schedule:publish", None)],
    ),
    "billing.pricing.tiers.withdraw_tiers": (
        dora,
        lambda e, who: tiers.withdraw_tiers(
            schedule_id=e.places["own"]["tier-schedules"], reason="Wrong.", **who
        ),
        [("billing:tier_schedule:withdraw", None)],
    ),
    "billing.pricing.minimums.publish_minimum": (
        dora,
        lambda e, who: minimums.publish_minimum(
            organization=e.cast.acme, rule=MinimumRule(Decimal(5), "2030-01", "2030-12"), **who
        ),
        [("billing:minimum_charge:publish", "acme")],
    ),
    "billing.pricing.minimums.withdraw_minimum": (
        dora,
        lambda e, who: minimums.withdraw_minimum(
            minimum_id=e.places["own"]["minimum-charges"], reason="Wrong.", **who
        ),
        [("billing:minimum_charge:withdraw", "acme")],
    ),
    "billing.pricing.price_calendars.publish_calendar": (
        dora,
        lambda _, who: price_calendars.publish_calendar(
            price_book=PriceBook.objects.earliest("pk"),
            rule=make_calendar_rule(),
            valid_from=datetime(2032, 1, 1, tzinfo=UTC),
            **who,
        ),
        [("billing:price_calendar:publish", None)],
    ),
    "billing.pricing.price_calendars.withdraw_calendar": (
        dora,
        lambda e, who: price_calendars.withdraw_calendar(
            calendar_id=e.places["own"]["price-calendars"], reason="Wrong.", **who
        ),
        [("billing:price_calendar:withdraw", None)],
    ),
    "billing.taxes.set_tax_rate": (
        dora,
        lambda _, who: taxes.set_tax_rate(
            terms=TaxTerms("DE", "S", Decimal(19), ""), valid_from=date(2031, 1, 1), **who
        ),
        [("billing:tax_rate:set", None)],
    ),
    "billing.taxes.withdraw_tax_rate": (
        dora,
        lambda e, who: taxes.withdraw_tax_rate(
            rate_id=e.places["own"]["tax-rates"], reason="Wrong.", **who
        ),
        [("billing:tax_rate:withdraw", None)],
    ),
    "billing.taxes.set_tax_treatment": (
        dora,
        lambda e, who: taxes.set_tax_treatment(
            organization=e.cast.acme,
            country="DE",
            category="S",
            valid_from=date(2031, 1, 1),
            **who,
        ),
        [("billing:tax_treatment:set", "acme")],
    ),
    "billing.taxes.withdraw_tax_treatment": (
        dora,
        lambda e, who: taxes.withdraw_tax_treatment(
            treatment_id=e.places["own"]["tax-treatments"], reason="Wrong.", **who
        ),
        [("billing:tax_treatment:withdraw", "acme")],
    ),
    "billing.showback.save_cost_view": (
        dora,
        lambda _, who: showback.save_cost_view(name="Mine", query="group_by=size", **who),
        [("billing:cost_view:save", None)],
    ),
    "billing.showback.delete_cost_view": (
        dora,
        lambda e, who: showback.delete_cost_view(
            view=CostView.objects.create(person=e.cast.dora, name="Old", created_at=AT), **who
        ),
        [("billing:cost_view:delete", None)],
    ),
    "billing.routing.create_issuer": (
        dora,
        lambda _, who: routing.create_issuer(
            fields={"slug": "third", "name": "Third", "series": "TH", "credit_series": "TH-CN"},
            **who,
            terms=SITE_TERMS,
        ),
        [("billing:issuer:create", None)],
    ),
    "billing.routing.change_issuer": (
        dora,
        lambda _, who: routing.change_issuer(
            issuer=Issuer.objects.earliest("pk"), changes={"name": "Labs GmbH"}, **who
        ),
        [("billing:issuer:update", None)],
    ),
    "billing.routing.create_recipient": (
        dora,
        lambda e, who: routing.create_recipient(
            organization=e.cast.acme, fields={"slug": "third", "name": "Third"}, **who
        ),
        [("billing:recipient:create", "acme")],
    ),
    "billing.routing.change_recipient": (
        dora,
        lambda e, who: routing.change_recipient(
            recipient=Recipient.objects.get(pk=e.places["own"]["recipients"]),
            changes={"name": "Chemistry"},
            **who,
        ),
        [("billing:recipient:update", "acme")],
    ),
    "billing.routing.set_route": (
        dora,
        lambda e, who: routing.set_route(project=e.cast.llm, purchase_order="PO-9", **who),
        [("billing:project_route:update", "acme")],
    ),
}
