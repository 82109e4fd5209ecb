"""Refusals that leave an audit entry: entry points call this once what was refused is undone.

Their class (`DomainError.is_audited`) and the codes of problems with credentials of clusters say
which they are. An entry names fields and codes, and never the value of a reference: some people
put the secret itself there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError, SourceUnavailableError
from tenants.domain.secret_references import AUDITED_PROBLEMS
from tenants.models import AuditEntry, Cluster
from tenants.services.audit import record

SOURCE_REASONS: Final = frozenset({"credentials_forbidden", "forbidden_address"})
SOURCE_EVERY: Final = timedelta(days=1)
"""A cluster is asked every few seconds: its first refusal of a day for each reason is one entry."""


def is_noted(refusal: DomainError) -> bool:
    """Whether a refusal leaves an audit entry."""
    return refusal.is_audited or any(one.code in AUDITED_PROBLEMS for one in refusal.problems)


@transaction.atomic
def note_refusal(
    *, refusal: DomainError, noun: str, object_id: object = "", actor: Actor, at: datetime
) -> bool:
    """Audit a refusal when `is_noted`; return whether it is.

    Args:
        refusal: What a service raised; its transaction is over.
        noun: Of the table that was to be written, as `noun_of` returns it.
        object_id: Of the row; "" when a new one was to be made.
        actor: Who tried.
        at: When, UTC.
    """
    if not is_noted(refusal):
        return False
    problems = {one.field: one.code for one in refusal.problems if one.code in AUDITED_PROBLEMS}
    record(
        actor=actor,
        at=at,
        action=f"tenants:{noun}:refuse",
        object_kind=noun,
        object_id=object_id,
        facts={
            "code": refusal.code,
            "fields": problems or {refusal.field: refusal.code},
            **refusal.facts,
        },
    )
    return True


@contextmanager
def audited_use(*, slug: str, actor: Actor, at: datetime) -> Iterator[None]:
    """Audit that an adapter refuses a cluster's credential or address, and raise the refusal on.

    Every call of a cluster's adapter is made in here, outside transactions. Where its error comes
    as a value, from a thread, `note_refused_use` takes it.

    Args:
        slug: The cluster's.
        actor: Who uses it; mostly the service itself.
        at: When, UTC.

    Raises:
        SourceUnavailableError: What the adapter raised.
    """
    try:
        yield
    except SourceUnavailableError as error:
        note_refused_use(slug=slug, error=error, actor=actor, at=at)
        raise


def note_refused_use(*, slug: str, error: Exception | None, actor: Actor, at: datetime) -> bool:
    """Audit that a cluster's credential or address was refused at use; once a day for each reason.

    Args:
        slug: The cluster's.
        error: What its adapter raised, if that is such a refusal; nothing was sent.
        actor: Who uses it.
        at: When, UTC.
    """
    if not isinstance(error, SourceUnavailableError) or error.reason not in SOURCE_REASONS:
        return False
    with transaction.atomic():
        cluster = Cluster.objects.get(slug=slug)
        entries = AuditEntry.objects.filter(
            object_kind="cluster",
            object_id=str(cluster.pk),
            action="tenants:cluster:refuse",
            facts__code=error.reason,
            occurred_at__gt=at - SOURCE_EVERY,
        )
        if entries.exists():
            return False
        record(
            actor=actor,
            at=at,
            action="tenants:cluster:refuse",
            object_kind="cluster",
            object_id=cluster.pk,
            facts={"code": error.reason, "cluster": slug},
        )
    return True
