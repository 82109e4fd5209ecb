"""Every call of asking and of being reported: who does it, how, and the entries it leaves."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from quotas.models import QuotaRequest, RequestPolicy
from quotas.services.requests import asking as request_asking
from quotas.services.requests import asking as request_bulk
from quotas.services.requests import policies as request_policies
from quotas.services.requests.asking import RequestDraft
from tenants.domain.actors import Actor
from tenants.models import NotificationDelivery, NotificationEndpoint
from tenants.selectors.actors import actor_of_user
from tenants.services.notifications import deliveries as notification_deliveries
from tenants.services.notifications import endpoints as notification_endpoints
from tenants.services.notifications import preferences as notification_preferences
from tests.support.flows.estate import Estate

Does = Callable[[Estate, Any], object]
SUBMITTED: list[tuple[str, str | None]] = [("quotas:request:submit", "acme")]


def bob(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.bob)


def alice(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.alice)


def frank(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.frank)


def draft(estate: Estate) -> RequestDraft:
    return RequestDraft(estate.cast.llm, "small", 1, "More.")


def given_up(estate: Estate) -> UUID:
    """Return a delivery of Acme's that was given up."""
    rows = NotificationDelivery.objects.filter(pk=estate.places["own"]["notification-deliveries"])
    rows.update(state="given_up")
    return rows.get().pk


def endpoint(estate: Estate) -> NotificationEndpoint:
    return NotificationEndpoint.objects.get(pk=estate.places["own"]["notification-endpoints"])


REQUEST_DEEDS: dict[str, tuple[Callable[[Estate], Actor], Does, list[tuple[str, str | None]]]] = {
    "quotas.requests.asking.make_request": (
        bob,
        lambda e, who: request_asking.make_request(draft=draft(e), **who),
        SUBMITTED,
    ),
    "quotas.requests.asking.renew_request": (
        bob,
        lambda e, who: request_asking.renew_request(
            request=QuotaRequest.objects.get(pk=e.places["own"]["renewable-requests"]),
            end_at=None,
            justification="Longer.",
            **who,
        ),
        SUBMITTED,
    ),
    "quotas.requests.asking.make_requests": (
        bob,
        lambda e, who: request_bulk.make_requests(drafts=[draft(e)], **who),
        SUBMITTED,
    ),
    "quotas.requests.asking.comment_request": (
        bob,
        lambda e, who: request_asking.comment_request(
            request_id=e.places["own"]["quota-requests"], text="Please.", **who
        ),
        [("quotas:request:comment", "acme")],
    ),
    "quotas.requests.policies.make_policy": (
        frank,
        lambda _, who: request_policies.make_policy(organization=None, fields={}, **who),
        [("quotas:request_policy:create", None)],
    ),
    "quotas.requests.policies.change_policy": (
        frank,
        lambda e, who: request_policies.change_policy(
            policy=RequestPolicy.objects.get(organization=e.cast.acme),
            changes={"remind_days": 3},
            **who,
        ),
        [("quotas:request_policy:update", "acme")],
    ),
    "tenants.notifications.endpoints.register_endpoint": (
        alice,
        lambda e, who: notification_endpoints.register_endpoint(
            organization=e.cast.acme,
            kind="mail",
            address="new@example.test",
            events=["*"],
            **who,
        ),
        [("tenants:notification_endpoint:create", "acme")],
    ),
    "tenants.notifications.endpoints.change_endpoint": (
        alice,
        lambda e, who: notification_endpoints.change_endpoint(
            endpoint=endpoint(e), changes={"events": ["quotas:*:*"]}, **who
        ),
        [("tenants:notification_endpoint:update", "acme")],
    ),
    "tenants.notifications.endpoints.close_endpoint": (
        alice,
        lambda e, who: notification_endpoints.close_endpoint(endpoint=endpoint(e), **who),
        [("tenants:notification_endpoint:close", "acme")],
    ),
    "tenants.notifications.deliveries.resend_delivery": (
        alice,
        lambda e, who: notification_deliveries.resend_delivery(delivery_id=given_up(e), **who),
        [("tenants:notification_delivery:resend", "acme")],
    ),
    "tenants.notifications.preferences.choose_notifications": (
        alice,
        lambda e, who: notification_preferences.choose_notifications(
            person=e.cast.alice, muted_events=[], language="de", **who
        ),
        [("tenants:notification_preference:update", None)],
    ),
}
