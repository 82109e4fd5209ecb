"""Suspensions with who asked for them, as the audit trail has it."""

from typing import Final

from django.db.models import CharField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Cast

from quotas.models import QuotaSuspension
from tenants.models import AuditEntry

SUSPEND: Final = "quotas:suspension:suspend"


def with_who_asked(suspensions: QuerySet[QuotaSuspension]) -> QuerySet[QuotaSuspension]:
    """Return suspensions with `asked_by`: who was told to the trail; None if nobody was."""
    entries = AuditEntry.objects.filter(
        object_kind="quota_suspension",
        object_id=Cast(OuterRef("pk"), CharField()),
        action=SUSPEND,
    ).order_by("-id")
    return suspensions.annotate(asked_by=Subquery(entries.values("actor_label")[:1]))
