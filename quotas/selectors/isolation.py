"""Facts of isolation, as admission keeps them in memory."""

from quotas.domain.isolation_policy import Policy, ServingMode, WorkKind
from quotas.models import IsolationPolicy


def isolation_policies() -> tuple[Policy, ...]:
    """Return every policy, by organization, project and kind of work; one statement."""
    rows = IsolationPolicy.objects.order_by(
        "organization__slug", "project__slug", "work_kind"
    ).values_list(
        "organization__slug",
        "project__slug",
        "work_kind",
        "modes",
        "may_meet_tenants",
        "default_kind",
    )
    return tuple(
        Policy(
            organization=organization,
            project=project,
            work_kind=WorkKind(kind) if kind else None,
            modes=frozenset(ServingMode(mode) for mode in modes),
            may_meet_tenants=may_meet,
            default_kind=WorkKind(default) if default else None,
        )
        for organization, project, kind, modes, may_meet, default in rows.iterator()
    )
