"""Admin pages of organizations and projects."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.contrib import admin

from tenants.admin.base import ServiceAdmin, row_action
from tenants.domain.actors import Actor
from tenants.models import Organization, Project
from tenants.services import organizations


@admin.register(Organization)
class OrganizationAdmin(ServiceAdmin):
    """Organizations, the billed customers."""

    view_capability = "tenants:organization:read"
    write_capability = "tenants:organization:write"
    hint = "Currency and time zone are kept for ever: months already billed depend on both."
    add_fields = (
        "slug",
        "name",
        "billing_currency",
        "time_zone",
        *organizations.ORGANIZATION_EDITABLE[1:],
    )
    help_texts = {
        "billing_currency": "Three letters, such as EUR. It is kept for ever.",
        "time_zone": "Months begin and end at its midnight. It is kept for ever.",
        "country": "Of the address: two capital letters, such as DE.",
        "language": "Of its invoices and credit notes.",
    }
    change_fields = organizations.ORGANIZATION_EDITABLE
    list_display = ("name", "slug", "state", "billing_currency", "time_zone", "cost_center")
    list_filter = ("state", "billing_currency", "time_zone")
    search_fields = ("name", "slug", "cost_center", "tax_id")
    actions = ("close_organizations",)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> Organization:
        """Make an organization."""
        return organizations.create_organization(**fields, actor=actor, at=at)

    def change(
        self, row: Organization, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> Organization:
        """Change how an organization is described."""
        return organizations.update_organization(
            organization=row, changes=changes, actor=actor, at=at
        )

    @row_action("Close", done="is closed")
    def close_organizations(self, row: Organization, *, actor: Actor, at: datetime) -> None:
        """Close an organization."""
        organizations.close_organization(organization=row, actor=actor, at=at)


@admin.register(Project)
class ProjectAdmin(ServiceAdmin):
    """Projects, which divide an organization's usage."""

    view_capability = "tenants:project:read"
    write_capability = "tenants:project:write"
    hint = "A project never moves to another organization."
    add_fields = ("organization", "slug", "name", "cost_center")
    change_fields = organizations.PROJECT_EDITABLE
    list_display = ("name", "slug", "organization", "state", "cost_center")
    list_filter = ("state", "organization")
    list_select_related = ("organization",)
    search_fields = ("name", "slug", "organization__name", "cost_center")
    autocomplete_fields = ("organization",)
    actions = ("close_projects",)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> Project:
        """Make a project."""
        return organizations.create_project(**fields, actor=actor, at=at)

    def change(
        self, row: Project, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> Project:
        """Change how a project is described."""
        return organizations.update_project(project=row, changes=changes, actor=actor, at=at)

    @row_action("Close", done="is closed")
    def close_projects(self, row: Project, *, actor: Actor, at: datetime) -> None:
        """Close a project."""
        organizations.close_project(project=row, actor=actor, at=at)
