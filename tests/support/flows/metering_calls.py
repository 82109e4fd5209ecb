"""Every call of metering: who does it, how, and the entries it leaves."""

from typing import Any

from metering.domain.corrections.correction import RecheckReason
from metering.models import CreditState, MeteringException, MeteringWindow, UsageRecord
from metering.services import catalogue as catalogue_editing
from metering.services.collection import hour_decisions
from metering.services.corrections import exceptions, incidents, rechecks, review
from metering.services.devices import credits as crediting
from metering.services.devices import events as device_events
from metering.services.efficiency import waste
from tenants.domain.actors import Actor
from tenants.selectors.actors import actor_of_user
from tests.support.builders import MONTH_END
from tests.support.flows.estate import Estate


def frank(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.frank)


def dora(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.dora)


def bob(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.bob)


METERING_DEEDS: dict[str, Any] = {
    "metering.catalogue.add_catalogue_version": (
        frank,
        lambda _, who: catalogue_editing.add_catalogue_version(
            rules=[{"size": "large", "resources": ["nvidia.com/*"]}],
            based_on=1,
            note="One size.",
            **who,
        ),
        [("metering:catalogue:store", None)],
    ),
    "metering.efficiency.waste.dismiss_finding": (
        bob,
        lambda e, who: waste.dismiss_finding(
            finding_id=e.places["own"]["waste-findings"], reason="Meant so.", **who
        ),
        [("metering:waste:dismiss", "acme")],
    ),
    "metering.devices.credits.decide_credit": (
        dora,
        lambda e, who: crediting.decide_credit(
            proposal_id=e.places["own"]["credit-proposals"],
            state=CreditState.ACCEPTED,
            reason="Broken.",
            **who,
        ),
        [("metering:credit:accept", "acme")],
    ),
    "metering.devices.events.end_device_event": (
        frank,
        lambda e, who: device_events.end_device_event(
            event_id=e.places["own"]["device-events"], note="Drained.", **who
        ),
        [("metering:device_event:end", None)],
    ),
    "metering.corrections.exceptions.resolve_exception": (
        frank,
        lambda _, who: exceptions.resolve_exception(
            exception_id=MeteringException.objects.earliest("pk").pk, note="Seen.", **who
        ),
        [("metering:exception:resolve", None)],
    ),
    "metering.corrections.incidents.settle_incident": (
        frank,
        lambda _, who: incidents.settle_incident(
            exceptions=MeteringException.objects.filter(
                pk=MeteringException.objects.earliest("pk").pk
            ),
            note="Seen.",
            **who,
        ),
        [("metering:exception:resolve", None)],
    ),
    "metering.corrections.rechecks.ask_recheck": (
        frank,
        lambda _, who: rechecks.ask_recheck(
            window_id=MeteringWindow.objects.get(start_at=MONTH_END).pk,
            reason=RecheckReason.PERSON,
            **who,
        ),
        [("metering:window:ask_recheck", None)],
    ),
    "metering.corrections.review.ask_correction": (
        frank,
        lambda e, who: review.ask_correction(
            record=UsageRecord.objects.get(pk=e.places["own"]["usage-records"]),
            unit_seconds=-1,
            reason="Broken.",
            is_four_eyes=True,
            **who,
        ),
        [("metering:correction:ask", "acme")],
    ),
    "metering.corrections.review.approve_correction": (
        frank,
        lambda e, who: review.approve_correction(
            correction_id=e.places["own"]["usage-corrections"], is_four_eyes=True, **who
        ),
        [("metering:correction:post", "acme")],
    ),
    "metering.corrections.review.reject_correction": (
        frank,
        lambda e, who: review.reject_correction(
            correction_id=e.places["other"]["usage-corrections"], note="No.", **who
        ),
        [("metering:correction:reject", "umbrella")],
    ),
    "metering.collection.hour_decisions.retry_window": (
        frank,
        lambda e, who: hour_decisions.retry_window(
            window_id=e.places["own"]["metering-windows"], **who
        ),
        [("metering:window:retry", None)],
    ),
}
