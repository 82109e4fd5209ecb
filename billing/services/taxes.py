"""Tax rates and the tax treatment of organizations: published from a day on, and withdrawn."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from billing.domain.documents.taxes import (
    TaxTerms,
    require_category,
    require_country,
    require_terms,
)
from billing.domain.errors import (
    TaxRateExistsError,
    TaxTreatmentExistsError,
    TaxWithdrawnError,
    required_reason,
)
from billing.models import TaxRate, TaxTreatment
from billing.selectors.locks import lock_organization
from tenants.domain.actors import Actor
from tenants.models import Organization
from tenants.services.audit import record


def set_tax_rate(
    *,
    terms: TaxTerms,
    valid_from: date,
    actor: Actor,
    at: datetime,
) -> TaxRate:
    """Return the rate of a category in a country for tax points from a day on.

    Args:
        terms: Country, category, rate, and what documents of E, AE and O print.
        valid_from: The first tax point; it applies up to the first one of the next rate.
        actor: The account that publishes it.
        at: When.

    Raises:
        TaxInvalidError: Country, category, rate or exemption text is wrong.
        TaxRateExistsError: Another rate has the same first day.
    """
    require_terms(terms)
    with transaction.atomic():
        row, is_new = TaxRate.objects.get_or_create(
            country=terms.country,
            category=terms.category,
            valid_from=valid_from,
            withdrawn_at=None,
            defaults={
                "rate": terms.rate,
                "exemption_text": terms.exemption_text.strip(),
                "published_at": at,
            },
        )
        if not is_new:
            raise TaxRateExistsError(
                "Another rate has the same country, category and first day.",
                field="valid_from",
                facts={"tax_rate": str(row.pk), "rate": f"{row.rate.normalize():f}"},
            )
        _audit_rate(row, action="set", actor=actor, at=at)
    return row


def withdraw_tax_rate(*, rate_id: UUID, reason: str, actor: Actor, at: datetime) -> TaxRate:
    """Withdraw a rate: the one before it goes on. Final documents keep what they show.

    Raises:
        ReasonMissingError: There is no reason.
        TaxWithdrawnError: It is withdrawn already.
        TaxRate.DoesNotExist: There is none.
    """
    why = required_reason(reason)
    with transaction.atomic():
        row = TaxRate.objects.select_for_update(of=("self",), no_key=True).get(pk=rate_id)
        _withdraw(row, at=at)
        _audit_rate(row, action="withdraw", actor=actor, at=at, reason=why)
    return row


def set_tax_treatment(
    *,
    organization: Organization,
    country: str,
    category: str,
    valid_from: date,
    actor: Actor,
    at: datetime,
) -> TaxTreatment:
    """Return how an organization is taxed for tax points from a day on.

    Args:
        organization: The organization.
        country: ISO 3166-1 alpha-2.
        category: S, Z, E, AE or O.
        valid_from: The first tax point; it applies up to the first one of the next treatment.
        actor: The account that publishes it.
        at: When.

    Raises:
        TaxInvalidError: Country or category is wrong.
        TaxTreatmentExistsError: Another treatment of the organization has the same first day.
    """
    require_country(country)
    require_category(category)
    with transaction.atomic():
        lock_organization(organization.pk)
        key: dict[str, Any] = {"organization": organization, "valid_from": valid_from}
        there = TaxTreatment.objects.filter(**key, withdrawn_at=None).first()
        if there is not None:
            raise TaxTreatmentExistsError(
                "Another tax treatment of the organization has the same first day.",
                field="valid_from",
                facts={"tax_treatment": str(there.pk)},
            )
        row = TaxTreatment.objects.create(
            **key, country=country, category=category, published_at=at
        )
        _audit_treatment(row, action="set", actor=actor, at=at)
    return row


def withdraw_tax_treatment(
    *, treatment_id: UUID, reason: str, actor: Actor, at: datetime
) -> TaxTreatment:
    """Withdraw a tax treatment: the one before it goes on. Final documents keep what they show.

    Raises:
        ReasonMissingError: There is no reason.
        TaxWithdrawnError: It is withdrawn already.
        TaxTreatment.DoesNotExist: There is none.
    """
    why = required_reason(reason)
    with transaction.atomic():
        of_row = TaxTreatment.objects.values_list("organization", flat=True)
        lock_organization(of_row.get(pk=treatment_id))
        row = TaxTreatment.objects.select_related("organization").get(pk=treatment_id)
        _withdraw(row, at=at)
        _audit_treatment(row, action="withdraw", actor=actor, at=at, reason=why)
    return row


def _withdraw(row: TaxRate | TaxTreatment, *, at: datetime) -> None:
    if row.withdrawn_at is not None:
        raise TaxWithdrawnError(
            "It is withdrawn already.", facts={"withdrawn_at": row.withdrawn_at.isoformat()}
        )
    row.withdrawn_at = at
    row.save(update_fields=["withdrawn_at"])


def _facts(row: TaxRate | TaxTreatment, extra: Mapping[str, str]) -> dict[str, str]:
    return {
        "country": row.country,
        "category": row.category,
        "valid_from": row.valid_from.isoformat(),
        **extra,
    }


def _audit_rate(row: TaxRate, *, action: str, actor: Actor, at: datetime, **extra: str) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:tax_rate:{action}",
        object_kind="tax_rate",
        object_id=row.pk,
        facts=_facts(
            row,
            {
                "rate": f"{row.rate.normalize():f}",
                "exemption_text": row.exemption_text,
                **extra,
            },
        ),
    )


def _audit_treatment(
    row: TaxTreatment, *, action: str, actor: Actor, at: datetime, **extra: str
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:tax_treatment:{action}",
        object_kind="tax_treatment",
        object_id=row.pk,
        organization_id=row.organization_id,
        facts=_facts(row, extra),
    )
