"""Read-only admin pages: the audit trail and stored responses."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from django.contrib import admin

from tenants.admin.base import LedgerAdmin
from tenants.domain.actors import ActorKind
from tenants.models import AuditEntry, IdempotencyRecord

LEAF_DIGITS_SHOWN = 12


@admin.register(AuditEntry)
class AuditEntryAdmin(LedgerAdmin):
    """The audit trail."""

    view_capability = "tenants:audit:read"
    hint = "The database refuses to change or delete an entry; each carries a hash of its content."
    list_display = (
        "occurred_at",
        "actor_label",
        "action",
        "object_kind",
        "object_id",
        "leaf_start",
    )
    list_filter = ("action", "object_kind", "actor_kind", "occurred_at")
    filter_values: ClassVar[Mapping[str, Iterable[str]]] = {"actor_kind": ActorKind}
    search_fields = ("actor_label", "object_id", "action")
    day_column = "occurred_at"
    fields = (
        "occurred_at",
        "recorded_at",
        "actor_kind",
        "actor_label",
        "actor_id",
        "action",
        "object_kind",
        "object_id",
        "organization_id",
        "facts",
        "leaf_text",
    )
    readonly_fields = ("leaf_text",)

    @admin.display(description="leaf")
    def leaf_start(self, entry: AuditEntry) -> str:
        """Return enough of the hash to find it again; the entry's page has all of it."""
        return bytes(entry.leaf).hex()[:LEAF_DIGITS_SHOWN]

    @admin.display(description="leaf")
    def leaf_text(self, entry: AuditEntry) -> str:
        """Return the hash as people compare it."""
        return bytes(entry.leaf).hex()


@admin.register(IdempotencyRecord)
class IdempotencyRecordAdmin(LedgerAdmin):
    """What a POST under an Idempotency-Key was answered."""

    view_capability = "tenants:audit:read"
    hint = "Responses are kept for a week, so that a repeated request takes effect once."
    list_display = ("created_at", "principal", "key", "status")
    list_filter = ("status", "created_at")
    search_fields = ("principal", "key")
    fields = ("created_at", "principal", "key", "status")
