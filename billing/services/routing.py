"""Issuers, recipients, and the routes of projects to them; a billing run freezes its routes.

What is on a final document never moves: it has its own copy.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.models import Q

from billing.domain.documents.document import InvoiceTerms
from billing.domain.documents.errors import IssuerExistsError, RouteInvalidError
from billing.domain.documents.taxes import require_category, require_country
from billing.models import BillingPeriod, Issuer, ProjectRoute, Recipient, RunRoute
from billing.selectors.documents.routing import current_routes
from billing.selectors.locks import lock_organization
from tenants.domain.actors import Actor
from tenants.domain.refusals import SlugTakenError
from tenants.models import Organization, Project
from tenants.selectors.validation import refuse_invalid
from tenants.services.changing import add_row, change_row, lock_version, require_editable

ISSUER_EDITABLE: Final = ("name", "address", "tax_id", "bank_account", "country")
ISSUER_FIXED: Final = ("slug", "series", "credit_series", "first_number")
RECIPIENT_EDITABLE: Final = (
    "name",
    "address",
    "tax_id",
    "buyer_reference",
    "contact",
    "email",
    "cost_center",
    "country",
    "language",
    "tax_country",
    "tax_category",
)
_PREFIXES: Final = ("series", "credit_series")


def create_issuer(
    *, fields: Mapping[str, Any], actor: Actor, at: datetime, terms: InvoiceTerms
) -> Issuer:
    """Return a further issuer, whose numbers are series of its own.

    Args:
        fields: Of ISSUER_EDITABLE and ISSUER_FIXED.
        actor: The account that creates it.
        at: When.
        terms: The site's own prefixes, which no issuer may have.

    Raises:
        InvalidInputError: Fields are wrong; every problem is listed.
        IssuerExistsError: Its slug or a prefix is taken.
    """
    require_editable(fields, (*ISSUER_EDITABLE, *ISSUER_FIXED))
    row = Issuer(**fields, created_at=at)
    refuse_invalid(row)
    taken = IssuerExistsError("The slug or a prefix is taken.", field="series")
    with transaction.atomic():
        prefixes = [row.series, row.credit_series]
        has_prefix = Q(series__in=prefixes) | Q(credit_series__in=prefixes)
        is_own = len(set(prefixes)) == len(prefixes)
        of_site = {terms.series, terms.credit_series, terms.debit_series}
        if not is_own or of_site & {*prefixes} or Issuer.objects.filter(has_prefix).exists():
            raise taken
        add_row(
            row=row,
            refusals={
                "billing_issuer_slug_key": IssuerExistsError("The slug is taken.", field="slug"),
                "billing_issuer_series_key": taken,
                "billing_issuer_credit_series_key": taken,
            },
            actor=actor,
            at=at,
            organization_id=None,
            facts=dict(fields),
        )
    return row


def change_issuer(
    *,
    issuer: Issuer,
    changes: Mapping[str, Any],
    actor: Actor,
    at: datetime,
    expected_version: int | None = None,
) -> Issuer:
    """Return an issuer with other printed fields; drafts show them once they are made again.

    Args:
        issuer: Which one.
        changes: New values by field, of ISSUER_EDITABLE.
        actor: The account that changes it.
        at: When.
        expected_version: The version the caller saw; None when it does not matter.

    Raises:
        InvalidInputError: The values are wrong; every problem is listed.
        StaleVersionError: It was changed in the meantime.
    """
    require_editable(changes, ISSUER_EDITABLE)
    with transaction.atomic():
        row = lock_version(issuer, expected_version=expected_version, actor=actor)
        return change_row(
            row=row, changes=changes, verb="update", actor=actor, at=at, organization_id=None
        )


def create_recipient(
    *, organization: Organization, fields: Mapping[str, Any], actor: Actor, at: datetime
) -> Recipient:
    """Return a party that an organization may have billed instead of itself.

    Args:
        organization: Whose it is.
        fields: Of RECIPIENT_EDITABLE, and the slug.
        actor: The account that creates it.
        at: When.

    Raises:
        InvalidInputError: Fields are wrong; every problem is listed.
        TaxInvalidError: Country or category of its tax is wrong.
        SlugTakenError: The organization has a recipient with the slug.
    """
    require_editable(fields, ("slug", *RECIPIENT_EDITABLE))
    row = Recipient(organization=organization, **fields, created_at=at)
    refuse_invalid(row)
    _require_tax(row)
    with transaction.atomic():
        add_row(
            row=row,
            refusals={
                "recipient_unique": SlugTakenError(
                    f'The organization has a recipient with the slug "{row.slug}".', field="slug"
                )
            },
            actor=actor,
            at=at,
            organization_id=organization.pk,
            facts=dict(fields),
        )
    return row


def change_recipient(
    *,
    recipient: Recipient,
    changes: Mapping[str, Any],
    actor: Actor,
    at: datetime,
    expected_version: int | None = None,
) -> Recipient:
    """Return a recipient with other printed fields, or taxed otherwise.

    Args:
        recipient: Which one.
        changes: New values by field, of RECIPIENT_EDITABLE.
        actor: The account that changes it.
        at: When.
        expected_version: The version the caller saw; None when it does not matter.

    Raises:
        InvalidInputError: The values are wrong; every problem is listed.
        TaxInvalidError: Country or category of its tax is wrong.
        StaleVersionError: It was changed in the meantime.
    """
    require_editable(changes, RECIPIENT_EDITABLE)
    with transaction.atomic():
        row = lock_version(recipient, expected_version=expected_version, actor=actor)
        for name, value in changes.items():
            setattr(recipient, name, value)
        _require_tax(recipient)
        return change_row(
            row=row,
            changes=changes,
            verb="update",
            actor=actor,
            at=at,
            organization_id=row.organization_id,
        )


def set_route(
    *,
    project: Project,
    actor: Actor,
    at: datetime,
    issuer: Issuer | None = None,
    recipient: Recipient | None = None,
    purchase_order: str = "",
) -> ProjectRoute:
    """Return where the lines of a project go from the next run on.

    Args:
        project: The project.
        actor: The account that sets it.
        at: When.
        issuer: None for the site's own.
        recipient: One of the project's organization; None for the organization itself.
        purchase_order: Printed on the document; "" for none.

    Raises:
        RouteInvalidError: The recipient is of another organization.
        InvalidInputError: The purchase order is too long.
    """
    if recipient is not None and recipient.organization_id != project.organization_id:
        raise RouteInvalidError(
            "The recipient is of another organization than the project.", field="recipient"
        )
    fields = {"issuer": issuer, "recipient": recipient, "purchase_order": purchase_order.strip()}
    with transaction.atomic():
        lock_organization(project.organization_id)
        payer = project.organization_id
        row = ProjectRoute.objects.filter(project=project).first()
        if row is not None:
            return change_row(
                row=row, changes=fields, verb="update", actor=actor, at=at, organization_id=payer
            )
        row = ProjectRoute(project=project, organization_id=payer, **fields, created_at=at)
        refuse_invalid(row)
        add_row(
            row=row,
            refusals={},
            actor=actor,
            at=at,
            organization_id=payer,
            facts={
                "project": project.slug,
                **{name: str(value or "") for name, value in fields.items()},
            },
        )
    return row


def freeze_routes(period: BillingPeriod, *, run: int) -> None:
    """Keep the routes of a run as they are now, in the caller's transaction."""
    RunRoute.objects.bulk_create(
        RunRoute(
            period=period,
            run=run,
            project_id=project_id,
            issuer_id=route.issuer_id,
            recipient_id=route.recipient_id,
            purchase_order=route.purchase_order,
        )
        for project_id, route in current_routes(period.organization_id).items()
    )


def drop_routes(period: BillingPeriod, *, run: int) -> None:
    """Drop the frozen routes of a run without a final document, in the caller's transaction."""
    RunRoute.objects.filter(period=period, run=run).delete()


def _require_tax(recipient: Recipient) -> None:
    if recipient.tax_country or recipient.tax_category:
        require_country(recipient.tax_country)
        require_category(recipient.tax_category)
