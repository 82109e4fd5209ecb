"""Read-only admin pages: the audit trail, archived months and stored responses."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import ClassVar, Final

from django.contrib import admin
from django.utils.translation import gettext, gettext_noop

from tenants.admin.base import LedgerAdmin
from tenants.admin.lists import MarkFilter
from tenants.domain.actors import ActorKind
from tenants.models import ArchivedMonth, AuditEntry, IdempotencyRecord
from tenants.templatetags.texts import figure

LEAF_DIGITS_SHOWN = 12
SUMS: Final = {
    "unit_seconds": gettext_noop("unit-seconds"),
    "energy_millijoules": gettext_noop("millijoules"),
}
"""What is added up over the rows of an archived month; the others are amounts by currency."""


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


@admin.register(ArchivedMonth)
class ArchivedMonthAdmin(LedgerAdmin):
    """Which months are in archives, and not in the database."""

    view_capability = "tenants:audit:read"
    hint = (
        "The rows of a detached month are in an archive alone, until it is restored. The commands "
        "detach_month and restore_month write this list; the database refuses any other change."
    )
    list_display = (
        "month",
        "table",
        "rows",
        "sums_text",
        "detached_at",
        "restored_at",
        "detached_by",
        "reason",
        "manifest_start",
    )
    list_filter = ("table_name", ("restored_at", MarkFilter))
    search_fields = ("label", "detached_by", "location", "manifest_sha256")
    day_column = "begin_at"
    day_title = "first day of the month"
    fields = (
        "month",
        "table",
        "begin_at",
        "end_at",
        "rows",
        "sums_text",
        "location",
        "manifest",
        "windows",
        "detached_at",
        "detached_by",
        "reason",
        "restored_at",
        "restored_by",
        "restore_reason",
    )
    readonly_fields = ("month", "table", "rows", "sums_text", "manifest", "windows")

    @admin.display(description="month", ordering="begin_at")
    def month(self, row: ArchivedMonth) -> str:
        """Return the month in UTC."""
        return row.label

    @admin.display(description="table", ordering="table_name")
    def table(self, row: ArchivedMonth) -> str:
        """Return whose rows they are."""
        return str(row.get_table_name_display())

    @admin.display(description="rows", ordering="row_count")
    def rows(self, row: ArchivedMonth) -> str:
        """Return how many rows the archive has."""
        return figure(f"{row.row_count:,}")

    @admin.display(description="sums")
    def sums_text(self, row: ArchivedMonth) -> str:
        """Return what the rows add up to, with all digits."""
        return "; ".join(
            f"{figure(f'{Decimal(sum_):,f}')} {gettext(SUMS.get(name, name))}"
            for name, sum_ in sorted(row.sums.items())
        )

    @admin.display(description="manifest")
    def manifest_start(self, row: ArchivedMonth) -> str:
        """Return enough of the hash to find it again; the page of the month has all of it."""
        return row.manifest_sha256[:LEAF_DIGITS_SHOWN]

    @admin.display(description="SHA-256 of the manifest")
    def manifest(self, row: ArchivedMonth) -> str:
        """Return the hash that `manage.py verify` compares."""
        return row.manifest_sha256

    @admin.display(description="SHA-256 of the list of windows")
    def windows(self, row: ArchivedMonth) -> str:
        """Return the hash over the sealed windows of the month."""
        return row.windows_sha256


@admin.register(IdempotencyRecord)
class IdempotencyRecordAdmin(LedgerAdmin):
    """What a POST under an Idempotency-Key was answered."""

    view_capability = "tenants:audit:read"
    hint = "Responses are kept for a week, so that a repeated request takes effect once."
    list_display = ("created_at", "principal", "key", "status")
    list_filter = ("status", "created_at")
    search_fields = ("principal", "key")
    fields = ("created_at", "principal", "key", "status")
