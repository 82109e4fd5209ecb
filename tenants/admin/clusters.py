"""Admin pages of clusters and namespace bindings."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db.models import Model
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminSplitDateTimeWidget

from tenants.adapters import cluster_advice
from tenants.adapters.cluster_reach import reach_problems, read_secrets
from tenants.admin.base import RowForm, ServiceAdmin, ServiceForm, row_action
from tenants.domain.actors import Actor
from tenants.domain.hours import floor_hour, hours_text
from tenants.models import Cluster, NamespaceBinding
from tenants.selectors.directory import references_with
from tenants.services import clusters, namespaces
from tenants.templatetags.texts import english


@admin.register(Cluster)
class ClusterAdmin(ServiceAdmin):
    """Where GPUs are."""

    view_capability = "tenants:cluster:read"
    write_capability = "tenants:cluster:write"
    hint = (
        "Credentials are named, never stored here. An earlier first hour meters the past "
        'too; from "metered until" on no hour is metered, and unsealed hours there are '
        "waived."
    )
    add_fields = ("slug", *(name for name in clusters.EDITABLE if name != "metered_until"))
    change_fields = clusters.EDITABLE
    list_display = (
        "name",
        "slug",
        "state",
        "is_watched",
        "prometheus_url",
        "kubernetes_url",
        "credential_expires_at",
    )
    list_filter = ("state", "is_watched")
    search_fields = ("name", "slug")
    actions = ("close_clusters",)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> Cluster:
        """Register a cluster."""
        return clusters.register_cluster(
            **fields,
            problems=reach_problems(fields),
            secrets=read_secrets(references_with(fields)),
            actor=actor,
            at=at,
        )

    def change(
        self, row: Cluster, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> Cluster:
        """Change how a cluster is reached, observed or named."""
        return clusters.update_cluster(
            cluster=row,
            changes=changes,
            problems=reach_problems(changes),
            secrets=read_secrets(references_with(changes)),
            actor=actor,
            at=at,
        )

    def save_model(
        self,
        request: HttpRequest,
        obj: Model,
        form: RowForm,
        change: bool,  # noqa: FBT001 - Django's signature.
    ) -> None:
        """Show what may be wrong about the saved cluster."""
        super().save_model(request, obj, form, change)
        advise = cluster_advice(settings.CLUSTER_ADVICE)
        for sentence in advise(obj.offered_resources) if isinstance(obj, Cluster) else ():
            self.message_user(request, english(sentence), messages.WARNING)

    @row_action("Close", done="is closed")
    def close_clusters(self, row: Cluster, *, actor: Actor, at: datetime) -> None:
        """Close a cluster."""
        clusters.close_cluster(cluster=row, actor=actor, at=at)


class BindingForm(ServiceForm):
    """A namespace to bind, with its range as two times."""

    valid_from = forms.SplitDateTimeField(
        widget=UnfoldAdminSplitDateTimeWidget(), help_text="The start of a UTC hour."
    )
    valid_until = forms.SplitDateTimeField(
        widget=UnfoldAdminSplitDateTimeWidget(),
        required=False,
        help_text="The first UTC hour no longer bound; empty means until further notice.",
    )


@admin.register(NamespaceBinding)
class NamespaceBindingAdmin(ServiceAdmin):
    """Which project a namespace belongs to, and when."""

    form = BindingForm
    view_capability = "tenants:namespace:read"
    write_capability = "tenants:namespace:write"
    hint = "A binding is ended at an hour, never edited: hours already begun keep their project."
    add_fields = ("cluster", "namespace", "project", "valid_from", "valid_until", "default_owner")
    list_display = ("namespace", "cluster", "project", "valid_hours", "default_owner")
    list_filter = ("cluster", "project__organization")
    list_select_related = ("cluster", "project", "default_owner")
    search_fields = ("namespace", "cluster__slug", "project__name")
    autocomplete_fields = ("cluster", "project", "default_owner")
    actions = ("end_bindings",)

    @admin.display(description="valid (UTC)", ordering="valid")
    def valid_hours(self, binding: NamespaceBinding) -> str:
        """Return the hours it is for."""
        return hours_text(binding.valid.lower, binding.valid.upper)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> NamespaceBinding:
        """Bind a namespace."""
        return namespaces.bind_namespace(**fields, actor=actor, at=at)

    @row_action("End with this hour", done="ends with this hour")
    def end_bindings(self, row: NamespaceBinding, *, actor: Actor, at: datetime) -> None:
        """End a binding when the current UTC hour is over."""
        namespaces.close_binding(
            binding=row, valid_until=floor_hour(at) + timedelta(hours=1), actor=actor, at=at
        )
