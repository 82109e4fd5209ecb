"""The estate's requests, policies, notification endpoints and deliveries."""

from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from quotas.models import QuotaRequest, RequestPolicy
from tenants.models import (
    Notification,
    NotificationDelivery,
    NotificationEndpoint,
    Organization,
    Project,
)
from tests.support.builders import AT, make_invitation


def make_asking(organization: Organization, project: Project, owner: User) -> dict[str, Any]:
    """Make one row of each for an organization, and return their keys."""
    endpoint = NotificationEndpoint.objects.create(
        organization=organization,
        kind="mail",
        address=f"quota@{project.slug}.example.test",
        events=["*"],
        created_at=AT,
    )
    notification = Notification.objects.create(
        event="quotas:request:approved",
        organization=organization,
        subject=f"{project.slug} may",
        text=f"{project.slug} may.",
        occurred_at=AT,
    )
    delivery = NotificationDelivery.objects.create(
        notification=notification,
        endpoint=endpoint,
        kind="mail",
        address=endpoint.address,
        next_at=AT,
        created_at=AT,
    )
    policy = RequestPolicy.objects.create(
        organization=organization, steps=[{"level": "organization_admin"}], created_at=AT
    )
    return {
        "notification-endpoints": endpoint.pk,
        "notification-deliveries": delivery.pk,
        "request-policies": policy.pk,
        "invitations": make_invitation(project, owner).pk,
        "sessions": UUID(int=0),
        "renewable-requests": make_renewable(organization, project, owner).pk,
    }


def make_renewable(organization: Organization, project: Project, owner: User) -> QuotaRequest:
    """Make a request that was granted until a time, by the policy itself."""
    return QuotaRequest.objects.create(
        organization=organization,
        project=project,
        size="large",
        requested_units=9,
        justification=f"A while of {project.slug}.",
        end_at=AT,
        state="approved",
        is_automatic=True,
        decided_at=AT,
        requested_by=owner,
        created_at=AT,
    )
