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
        "allow_shared_with_other_tenants",
        "default_kind",
    )
    return tuple(
        Policy(
            organization=organization,
            project=project,
            work_kind=WorkKind(kind) if kind else None,
            modes=frozenset(ServingMode(mode) for mode in modes),
            allow_shared_with_other_tenants=allow_shared,
            default_kind=WorkKind(default) if default else None,
        )
        for organization, project, kind, modes, allow_shared, default in rows.iterator()
    )
