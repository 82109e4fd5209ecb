"""The page of quota: limits, what is held and admitted now, and what is free."""

from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from config.app.frame import render_page, shown_organizations, tenant_page
from config.app.labels import time_text
from metering.domain.efficiency.rules import thresholds_of
from quotas.access import (
    READ_LIMIT,
    READ_SUSPENSION,
    SUBMIT_REQUEST,
    organizations_with_limits,
)
from quotas.admin.board import project_rows, whole_rows
from quotas.api.limits.usage import as_far_as_visible
from quotas.selectors.headroom.board import OrganizationUsage, ProjectUsage, quota_board
from tenants.access import projects_visible_to
from tenants.admin.base import actor_of_request
from tenants.domain.actors import Actor

ORGANIZATIONS_SHOWN: Final = 5
ROWS_SHOWN: Final = 200
"""Of an organization: a page of at most 300 KiB. The API has all."""
ROWS_OF_PROJECT: Final = 40
"""Its limits, and those of its first people by name."""


@tenant_page
@require_safe
def quota(request: HttpRequest) -> HttpResponse:
    """Show use against limits of the projects that the person may read limits of."""
    actor, at = actor_of_request(request), timezone.now()
    scope = shown_organizations(request, actor, organizations_with_limits(actor))
    board = quota_board(
        scope.shown[:ORGANIZATIONS_SHOWN],
        projects=projects_visible_to(actor, READ_LIMIT),
        at=at,
        burst_classes=settings.BURST_PRIORITY_CLASSES,
        thresholds=thresholds_of(settings.WASTE_THRESHOLDS),
    )
    chosen = {} if scope.chosen is None else {"organization": scope.chosen.pk}
    context = {
        "scope": scope,
        "at": time_text(at),
        "organizations": [_organization(one, actor) for one in board],
        "more": max(0, len(scope.shown) - ORGANIZATIONS_SHOWN),
    }
    return render_page(
        request,
        "app/quota.html",
        context,
        title=gettext("Quota"),
        twin=f"/api/v1/quota-usage/?{urlencode(chosen)}",
    )


def _organization(found: OrganizationUsage, actor: Actor) -> dict[str, Any]:
    visible = as_far_as_visible(found, actor=actor)
    projects: list[dict[str, Any]] = []
    left = ROWS_SHOWN
    for project in visible.projects:
        if left <= 0:
            break
        projects.append(_project(project, visible, actor))
        left -= len(projects[-1]["rows"])
    return {
        "name": visible.name,
        "is_suspended": visible.suspension is not None,
        "reason": (visible.suspension or "")
        if actor.may(READ_SUSPENSION, organization_id=visible.id)
        else "",
        "rows": list(whole_rows(visible)) if visible.lines else [],
        "projects": projects,
        "more": len(visible.projects) - len(projects),
    }


def _project(
    project: ProjectUsage, organization: OrganizationUsage, actor: Actor
) -> dict[str, Any]:
    rows = list(project_rows(project))
    return {
        "id": project.id,
        "name": project.name,
        "is_suspended": project.suspension is not None and organization.suspension is None,
        "reason": (project.suspension or "")
        if actor.may(READ_SUSPENSION, organization_id=organization.id)
        else "",
        "rows": rows[:ROWS_OF_PROJECT],
        "more": max(0, len(rows) - ROWS_OF_PROJECT),
        "may_ask": actor.may(
            SUBMIT_REQUEST, organization_id=organization.id, project_id=project.id
        ),
    }
