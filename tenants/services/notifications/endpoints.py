"""Write notification endpoints: receivers and the events they subscribe to."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.notifications import (
    EndpointKind,
    address_problems,
    pattern_problems,
    secret_problems,
)
from tenants.domain.refusals import EndpointClosedError, EndpointKnownError
from tenants.models import NotificationDelivery, NotificationEndpoint, Organization
from tenants.models.organization import LifecycleState
from tenants.selectors.validation import refuse_invalid
from tenants.services.changing import (
    add_row,
    change_row,
    close_row,
    lock_version,
    require_editable,
)
from tenants.services.notifications.deliveries import WRITE, skip_closed


@transaction.atomic
def register_endpoint(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    organization: Organization | None,
    kind: str,
    address: str,
    events: Sequence[str],
    secret_reference: str = "",
    clear_text_hosts: Sequence[str] = (),
    actor: Actor,
    at: datetime,
) -> NotificationEndpoint:
    """Subscribe an address to events from now on.

    A webhook makes this service send requests to any URL, signed with a secret of the operator, so
    it needs a platform role. A mail address needs a role over the organization.

    Args:
        organization: The source of events; None for all organizations and the platform.
        kind: "mail" or "webhook".
        address: A mail address, or an https URL.
        events: Patterns such as "quotas:request:*".
        secret_reference: `env:WEBHOOK_SECRET_<NAME>` for a webhook.
        clear_text_hosts: Hosts that may be called over http.
        actor: The caller.
        at: When, UTC.

    Raises:
        ForbiddenError: The actor does not hold such a role.
        InvalidInputError: Fields are wrong; every problem is listed.
        EndpointKnownError: The address is already registered.
    """
    is_local = kind == EndpointKind.MAIL and organization is not None
    require_capability(
        actor, WRITE, organization_id=organization.pk if organization and is_local else None
    )
    endpoint = NotificationEndpoint(
        organization=organization,
        kind=kind,
        address=address,
        events=list(events),
        secret_reference=secret_reference,
        created_at=at,
    )
    refuse_invalid(
        endpoint,
        further=(
            *address_problems(kind, address, clear_text_hosts=clear_text_hosts),
            *secret_problems(kind, secret_reference),
            *pattern_problems(events),
        ),
    )
    add_row(
        row=endpoint,
        refusals={
            "notification_endpoint_once": EndpointKnownError(
                "This address is notified already.", field="address"
            )
        },
        actor=actor,
        at=at,
        organization_id=endpoint.organization_id,
        facts={"kind": kind, "events": list(events)},
    )
    return endpoint


@transaction.atomic
def change_endpoint(
    *,
    endpoint: NotificationEndpoint,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> NotificationEndpoint:
    """Change the events of an endpoint; for another address register a new endpoint.

    Raises:
        ForbiddenError: The actor may not write it.
        ValueError: A field is not editable.
        StaleVersionError: It was changed in the meantime.
        EndpointClosedError: It is closed; register the address again.
        InvalidInputError: The events cannot be used; every problem is listed.
    """
    require_editable(changes, ("events",))
    row = _locked(endpoint, expected_version=expected_version, actor=actor)
    if row.state != LifecycleState.ACTIVE:
        raise EndpointClosedError("This endpoint is closed.")
    return change_row(
        row=row,
        changes=changes,
        verb="update",
        actor=actor,
        at=at,
        organization_id=row.organization_id,
        problems=pattern_problems(changes["events"]) if "events" in changes else (),
    )


@transaction.atomic
def close_endpoint(
    *,
    endpoint: NotificationEndpoint,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> NotificationEndpoint:
    """Close an endpoint and skip its pending deliveries. Idempotent.

    Raises:
        ForbiddenError: The actor may not write it.
        StaleVersionError: It was changed in the meantime.
    """
    row = _locked(endpoint, expected_version=expected_version, actor=actor)
    skip_closed(NotificationDelivery.objects.filter(endpoint=row))
    return close_row(row=row, actor=actor, at=at, organization_id=row.organization_id)


def _locked(
    endpoint: NotificationEndpoint, *, expected_version: int | None, actor: Actor
) -> NotificationEndpoint:
    require_capability(actor, WRITE, organization_id=endpoint.organization_id)
    return lock_version(endpoint, expected_version=expected_version, actor=actor)
