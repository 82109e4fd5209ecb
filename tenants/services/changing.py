"""The two ways a row with a version is written: added, or changed at a known version."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import IntegrityError, models, transaction

from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, FieldProblem
from tenants.domain.refusals import StaleVersionError
from tenants.models.organization import LifecycleState
from tenants.selectors.locks import lock_rows
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record

Row = TypeVar("Row", bound=models.Model)


def add_row(
    *,
    row: models.Model,
    refusals: Mapping[str, DomainError],
    actor: Actor,
    at: datetime,
    organization_id: UUID | None,
    facts: Mapping[str, Any],
) -> None:
    """Insert a row and its audit entry `<app>:<noun>:create`, inside a transaction.

    Args:
        row: What is new; already valid.
        refusals: The refusal to raise, by the name of the constraint that the row would break.
        actor: The caller.
        at: When, UTC.
        organization_id: The organization of the audit trail.
        facts: The facts of the entry.

    Raises:
        DomainError: One of `refusals`.
    """
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError as error:
        refusal = refusals.get(_constraint_of(error))
        if refusal is None:
            raise
        raise refusal from error
    record(
        actor=actor,
        at=at,
        action=_action(row, "create"),
        object_kind=noun_of(row),
        object_id=row.pk,
        organization_id=organization_id,
        facts=facts,
    )


def change_row(  # noqa: PLR0913 - As above.
    *,
    row: Row,
    changes: Mapping[str, Any],
    verb: str,
    actor: Actor,
    at: datetime,
    organization_id: UUID | None,
    problems: Iterable[FieldProblem] = (),
) -> Row:
    """Change a locked row, increment its version, and write old and new values to the audit trail.

    If all values are unchanged, nothing is written.

    Args:
        row: Locked in this transaction.
        changes: New values by field.
        verb: The last part of the audit action.
        actor: The caller.
        at: When, UTC.
        organization_id: The organization of the audit trail.
        problems: What the service found wrong with the changes.

    Raises:
        InvalidInputError: The row would not be valid; every problem is listed.
    """
    old = {name: getattr(row, name) for name in changes}
    for name, value in changes.items():
        setattr(row, name, value)
    refuse_invalid(row, further=problems)
    changed = {name: [_plain(old[name]), _plain(changes[name])] for name in changes}
    changed = {name: pair for name, pair in changed.items() if pair[0] != pair[1]}
    if not changed:
        return row
    row.version += 1  # type: ignore[attr-defined]
    row.save(update_fields=[*changed, "version"])
    record(
        actor=actor,
        at=at,
        action=_action(row, verb),
        object_kind=noun_of(row),
        object_id=row.pk,
        organization_id=organization_id,
        facts={"changed": changed},
    )
    return row


def close_row(
    *, row: Row, actor: Actor, at: datetime, organization_id: UUID | None, **further: object
) -> Row:
    """Close a locked row, and set further fields with it; see `change_row`. Idempotent."""
    return change_row(
        row=row,
        changes={"state": LifecycleState.CLOSED.value, **further},
        verb="close",
        actor=actor,
        at=at,
        organization_id=organization_id,
    )


def lock_version(row: Row, *, expected_version: int | None, actor: Actor) -> Row:
    """Lock a row and return it as it is now; refuse a change made from an older version.

    Args:
        row: Which one.
        expected_version: The version that the caller read; None to skip the check.
        actor: The caller; named in the facts.

    Raises:
        StaleVersionError: The row has another version now.
    """
    (locked,) = lock_rows(type(row)._default_manager.filter(pk=row.pk))  # noqa: SLF001 - Documented.
    require_version(row=locked, expected_version=expected_version, actor=actor)
    return locked


def require_editable(changes: Iterable[str], editable: Collection[str]) -> None:
    """Refuse names of fields that are set once.

    Raises:
        ValueError: A field is not editable.
    """
    if not set(changes) <= set(editable):
        raise ValueError("A field is not editable.")


def require_version(*, row: models.Model, expected_version: int | None, actor: Actor) -> None:
    """Refuse a change made from an older version of a locked row.

    Args:
        row: Locked in this transaction.
        expected_version: The version that the caller read; None to skip the check.
        actor: The caller; named in the facts.

    Raises:
        StaleVersionError: The row has another version now.
    """
    version: int = row.version  # type: ignore[attr-defined]
    if expected_version is not None and version != expected_version:
        raise StaleVersionError(
            f"The {noun_of(row)} was changed: it is at version {version}, not {expected_version}.",
            facts={"version": version, "expected_version": expected_version, "actor": actor.label},
        )


def noun_of(row: models.Model | type[models.Model]) -> str:
    """Return the noun of a row's table in snake_case, such as "service_account"."""
    return str(row._meta.verbose_name_raw).replace(" ", "_")  # noqa: SLF001 - Documented model meta.


def _action(row: models.Model, verb: str) -> str:
    """Return the audit action; people are rows of Django's own table that tenants writes."""
    app = row._meta.app_label.replace("auth", "tenants")  # noqa: SLF001 - Documented model meta.
    return f"{app}:{noun_of(row)}:{verb}"


def _constraint_of(error: IntegrityError) -> str:
    """Return the name of the constraint that refused, or ""."""
    diagnosis = getattr(error.__cause__, "diag", None)
    return str(getattr(diagnosis, "constraint_name", "") or "")


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | int | bool | list | dict):
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)
