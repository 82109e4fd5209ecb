"""Writing service accounts: made in an active organization, closed with their tokens."""

from datetime import datetime

from django.db import transaction

from tenants.domain.actors import Actor
from tenants.domain.refusals import OrganizationClosedError, SlugTakenError
from tenants.models import ApiToken, Organization, ServiceAccount
from tenants.models.organization import LifecycleState
from tenants.selectors.locks import lock_rows
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record
from tenants.services.changing import add_row


@transaction.atomic
def create_service_account(
    *, organization: Organization, slug: str, name: str, actor: Actor, at: datetime
) -> ServiceAccount:
    """Make a service account of an organization; it has no role and no token yet.

    Raises:
        InvalidInputError: Fields are wrong; every problem is told.
        OrganizationClosedError: The organization is closed.
        SlugTakenError: The organization has an account with this slug.
    """
    account = ServiceAccount(organization=organization, slug=slug, name=name, created_at=at)
    refuse_invalid(account)
    (owner,) = lock_rows(Organization.objects.filter(pk=organization.pk))
    if owner.state != LifecycleState.ACTIVE:
        raise OrganizationClosedError(f"{owner.name} is closed.", field="organization")
    add_row(
        row=account,
        refusals={
            "service_account_slug_unique_in_organization": SlugTakenError(
                f'The organization has a service account with the slug "{slug}".', field="slug"
            )
        },
        actor=actor,
        at=at,
        organization_id=owner.id,
        facts={"slug": slug},
    )
    return account


@transaction.atomic
def close_service_account(*, account: ServiceAccount, actor: Actor, at: datetime) -> ServiceAccount:
    """Close a service account and revoke its tokens. Closing twice changes nothing."""
    (row,) = lock_rows(ServiceAccount.objects.filter(pk=account.pk))
    if row.state == LifecycleState.CLOSED:
        return row
    row.state = LifecycleState.CLOSED
    row.save(update_fields=["state"])
    revoked = ApiToken.objects.filter(service_account=row, revoked_at=None).update(revoked_at=at)
    record(
        actor=actor,
        at=at,
        action="tenants:service_account:close",
        object_kind="service_account",
        object_id=row.pk,
        organization_id=row.organization_id,
        facts={"slug": row.slug, "tokens_revoked": revoked},
    )
    return row
