"""The limits around a request: its own, and all others of its project and of the users in it."""

from datetime import datetime
from uuid import UUID

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.limit_selectors import LimitSelector
from quotas.domain.limit_tree import GrantSpan, LimitKey
from quotas.domain.request_reach import HeldLimit
from quotas.models import QuotaLimit, QuotaRequest
from quotas.selectors.limits import grants_from, span_of, tree_limit_of


def limits_around(request: QuotaRequest, *, at: datetime) -> dict[LimitKey, HeldLimit]:
    """Return the limits of a request's project and its users, of the wanted size; two statements.

    Args:
        request: Saved or not.
        at: Now, UTC: grants of now and later come along.
    """
    rows = list(
        QuotaLimit.objects.filter(project=request.project_id, size=request.size)
        .select_related("project", "user", "cluster")
        .order_by("pk")
    )
    spans: dict[UUID, list[GrantSpan]] = {}
    for grant in grants_from(at).filter(limit__in=[row.pk for row in rows]):
        spans.setdefault(grant.limit_id, []).append(span_of(grant))  # type: ignore[arg-type] # Filtered.
    held = (
        HeldLimit(tree_limit_of(row, grants=spans.get(row.pk, ())), row.burst_units) for row in rows
    )
    return {one.key: one for one in held}


def key_asked(request: QuotaRequest) -> LimitKey:
    """Return where the limit that a request asks to change stands in the tree."""
    cluster = "" if request.cluster is None else request.cluster.slug
    return LimitKey(
        project=request.project.slug,
        user="" if request.user is None else request.user.username,
        selector=LimitSelector(GPUSize(request.size), request.model_group, cluster),
    )
