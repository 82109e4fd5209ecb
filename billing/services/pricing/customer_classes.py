"""Customer classes, and which of them an organization is in."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from billing.domain.errors import required_reason
from billing.domain.period import require_hour
from billing.models import CustomerClass, CustomerClassMembership
from billing.selectors.locks import lock_organization
from billing.services.pricing.assignments import begin_assignment
from tenants.domain.actors import Actor
from tenants.domain.refusals import SlugTakenError
from tenants.models import Organization
from tenants.selectors.validation import refuse_invalid
from tenants.services.changing import add_row


def create_customer_class(*, slug: str, name: str, actor: Actor, at: datetime) -> CustomerClass:
    """Return a further customer class.

    Args:
        slug: Its short name, unique.
        name: Its name.
        actor: The account that makes it.
        at: When.

    Raises:
        InvalidInputError: A field cannot be used; every problem is reported.
        SlugTakenError: The slug is taken.
    """
    row = CustomerClass(slug=slug, name=name, created_at=at)
    refuse_invalid(row)
    with transaction.atomic():
        add_row(
            row=row,
            refusals={
                "billing_customerclass_slug_key": SlugTakenError(
                    "There is a customer class with this slug.", field="slug", facts={"slug": slug}
                )
            },
            actor=actor,
            at=at,
            organization_id=None,
            facts={"slug": slug, "name": name},
        )
    return row


def set_customer_class(  # noqa: PLR0913 - A repair names what it replaces; all are keyword only.
    *,
    organization: Organization,
    customer_class: CustomerClass | None,
    valid_from: datetime,
    actor: Actor,
    at: datetime,
    replaces: UUID | None = None,
    reason: str = "",
) -> CustomerClassMembership:
    """Return the membership by which an organization is in a class from an hour on.

    It follows the rules of price book assignments.

    Args:
        organization: The payer.
        customer_class: The class; None for none any more.
        valid_from: A whole UTC hour.
        actor: The account that sets it.
        at: When.
        replaces: The membership in force at `valid_from` that was wrong.
        reason: Why; needed to replace a membership, or for hours that are charged already.

    Raises:
        NotOnTheHourError: `valid_from` is not a whole UTC hour.
        CurrencyMismatchError: A book of the class is not in the organization's billing currency.
        ReasonMissingError: A membership is replaced without a reason.
        AssignmentOverlapError: One is in force at that hour, and it or a later one begins there.
        AssignmentInUseError: Hours it would cover are charged already, and not by an own book.
        ReplacedPriceError: The named membership is not the one in force at that hour.
    """
    begin_at = require_hour(valid_from, field="valid_from")
    why = required_reason(reason) if replaces else reason.strip()
    with transaction.atomic():
        membership = CustomerClassMembership(
            organization=lock_organization(organization.pk),
            customer_class=customer_class,
            replaces_id=replaces,
        )
        return begin_assignment(membership, begin_at=begin_at, reason=why, actor=actor, at=at)
