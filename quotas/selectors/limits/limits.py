"""Limits: read as the tree the rules are about, with suspensions and known GPU models."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import CharField, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast

from metering.domain.catalogue.units import GPUSize
from metering.selectors.catalogue import unknown_model_group
from quotas.domain.limits.selectors import LimitSelector
from quotas.domain.limits.tree import GrantSpan, LimitKey, TreeLimit
from quotas.models import QuotaGrant, QuotaLimit, QuotaSuspension
from tenants.domain.errors import FieldProblem
from tenants.models import AuditEntry


def limit_tree(
    *,
    organization_id: UUID,
    project_id: UUID | None = None,
    sizes: Iterable[GPUSize],
    at: datetime,
) -> dict[LimitKey, TreeLimit]:
    """Return the limits of one organization with their grants of now and later; two statements.

    Args:
        organization_id: The organization.
        project_id: Only this project and its users; None for all.
        sizes: Of which sizes.
        at: Now, UTC: what ended before counts no more.
    """
    rows = QuotaLimit.objects.filter(organization_id=organization_id, size__in=list(sizes))
    if project_id is not None:
        rows = rows.filter(project_id=project_id)
    found = tree_limits_of(rows.select_related("project", "user", "cluster").order_by("pk"), at=at)
    return {limit.key: limit for limit in found}


def tree_limits_of(limits: Iterable[QuotaLimit], *, at: datetime) -> tuple[TreeLimit, ...]:
    """Return limits as values of the tree, with their grants of a time and later."""
    rows = tuple(limits)
    spans: dict[UUID, list[GrantSpan]] = {}
    for grant in grants_from(at).filter(limit__in=[row.pk for row in rows]):
        spans.setdefault(grant.limit_id, []).append(span_of(grant))  # type: ignore[arg-type] # Filtered.
    return tuple(tree_limit_of(row, grants=spans.get(row.pk, ())) for row in rows)


def grants_from(at: datetime) -> QuerySet[QuotaGrant]:
    """Return the grants in force at a time or later."""
    lasting = Q(valid__upper_inf=True) | Q(valid__endswith__gt=at)
    return QuotaGrant.objects.filter(lasting, valid__isempty=False)


def key_of(limit: QuotaLimit) -> LimitKey:
    """Return the key of a limit in its organization's tree."""
    return LimitKey(
        project="" if limit.project is None else limit.project.slug,
        user="" if limit.user is None else limit.user.username,
        selector=selector_of(limit),
    )


def selector_of(limit: QuotaLimit) -> LimitSelector:
    """Return what a limit is about."""
    return LimitSelector(
        size=GPUSize(limit.size),
        model_group=limit.model_group,
        cluster="" if limit.cluster is None else limit.cluster.slug,
    )


def tree_limit_of(limit: QuotaLimit, *, grants: Iterable[GrantSpan] = ()) -> TreeLimit:
    """Return a limit as a value of the tree."""
    return TreeLimit(
        key=key_of(limit),
        limit_units=limit.limit_units,
        overcommit_percent=limit.overcommit_percent,
        grants=tuple(grants),
        burst_units=limit.burst_units,
    )


def span_of(grant: QuotaGrant) -> GrantSpan:
    """Return a grant that is not cancelled as a value."""
    return GrantSpan(grant.units, begin_at=grant.valid.lower, end_at=grant.valid.upper)


def project_limit_units(*, project_id: UUID, size: str) -> int | None:
    """Return a project's limit of one size for every model and cluster.

    None when it is not set, and when it is unlimited.
    """
    return (
        QuotaLimit.objects.filter(
            project_id=project_id, user=None, size=size, model_group="", cluster=None
        )
        .values_list("limit_units", flat=True)
        .first()
    )


def unknown_group_problems(
    model_group: str, *, field: str = "model_group"
) -> tuple[FieldProblem, ...]:
    """Return the problem of a model group that neither the catalogue nor any node or pod has."""
    known = unknown_model_group(model_group)
    if known is None:
        return ()
    message = (
        f'No GPU model is called {model_group}. Use one of: {", ".join(known)}; or "" for every '
        "model. A model of which no node has come yet is known once a rule of the size catalogue "
        "names its product."
    )
    return (FieldProblem(field, "model_group_unknown", message),)


SUSPEND: Final = "quotas:suspension:suspend"


def with_requester(suspensions: QuerySet[QuotaSuspension]) -> QuerySet[QuotaSuspension]:
    """Return suspensions with `requested_by`: the user in the audit trail; None without one."""
    entries = AuditEntry.objects.filter(
        object_kind="quota_suspension",
        object_id=Cast(OuterRef("pk"), CharField()),
        action=SUSPEND,
    ).order_by("-id")
    return suspensions.annotate(requested_by=Subquery(entries.values("actor_label")[:1]))
