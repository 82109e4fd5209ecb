"""The demo's limits, set through the service where none is set."""

from collections.abc import Iterable
from datetime import datetime

import structlog

from quotas.domain.errors import QuotaHierarchyBrokenError
from quotas.models import QuotaLimit
from quotas.services.limits.limits import set_limit
from simulator.demo.plan import PlannedLimit
from tenants.domain.actors import Actor
from tenants.models import Organization, Project

log = structlog.get_logger(__name__)


def seed_limits(limits: Iterable[PlannedLimit], *, actor: Actor, at: datetime) -> None:
    """Set limits where none is set; changed ones stay.

    A deleted limit for which other limits leave no capacity is skipped.
    """
    for planned in limits:
        organization = Organization.objects.get(slug=planned.organization)
        project = Project.objects.filter(organization=organization, slug=planned.project).first()
        is_known = QuotaLimit.objects.filter(
            organization=organization, project=project, size=planned.size
        ).exists()
        if is_known:
            continue
        try:
            set_limit(
                scope="project" if project else "organization",
                organization=organization,
                project=project,
                size=planned.size,
                limit_units=planned.limit_units,
                actor=actor,
                at=at,
            )
        except QuotaHierarchyBrokenError as refused:
            where = f"{planned.organization}/{planned.project}".rstrip("/")
            log.warning("demo.limit.skipped", at=where, size=planned.size, reason=str(refused))
