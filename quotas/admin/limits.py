"""Admin pages of quota limits, and the quota board."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse
from unfold.decorators import action

from quotas.admin.board import board_page
from quotas.models import QuotaLimit
from quotas.services.limits import remove_limit, set_limit
from tenants.admin.base import ServiceAdmin
from tenants.domain.actors import Actor

READ_LIMIT = "quotas:limit:read"


@admin.register(QuotaLimit)
class QuotaLimitAdmin(ServiceAdmin):
    """How many units may be held at once."""

    view_capability = READ_LIMIT
    write_capability = "quotas:limit:write"
    hint = (
        "Projects never add up to more than their organization. A changed limit reaches the "
        "clusters with the next tick."
    )
    add_fields = ("scope", "organization", "project", "user", "size", "limit_units")
    change_fields = ("limit_units",)
    list_display = (
        "organization",
        "scope",
        "project",
        "user",
        "size",
        "limit_units",
        "generation",
        "changed_at",
    )
    list_filter = ("scope", "size", "organization")
    list_select_related = ("organization", "project", "user")
    search_fields = ("organization__name", "project__name", "project__slug", "user__username")
    autocomplete_fields = ("organization", "project", "user")
    actions = ("remove_limits",)
    actions_list = ("board",)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> QuotaLimit:
        """Set a limit."""
        return set_limit(**fields, actor=actor, at=at)

    def change(
        self, row: QuotaLimit, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> QuotaLimit:
        """Change a limit's number."""
        return set_limit(
            scope=row.scope,
            organization=row.organization,
            project=row.project,
            user=row.user,
            size=row.size,
            limit_units=changes["limit_units"],
            actor=actor,
            at=at,
        )

    @admin.action(description="Remove", permissions=["write"])
    def remove_limits(self, request: HttpRequest, rows: QuerySet[QuotaLimit]) -> None:
        """Take the chosen limits away; the level above decides again."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: remove_limit(limit_id=row.pk, actor=actor, at=at),
            done="is removed",
        )

    @action(description="Quota board", url_path="board", permissions=["view"], icon="leaderboard")
    def board(self, request: HttpRequest) -> TemplateResponse:
        """Show used against limit of every organization, its projects and their users."""
        context = {
            **self.admin_site.each_context(request),
            "opts": self.model._meta,  # noqa: SLF001 - Django's documented model meta.
        }
        return board_page(request, context=context)
