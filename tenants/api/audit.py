"""/api/v1/audit-entries/: the audit trail. Read only, as the table itself."""

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from tenants.access import access_audit_entry, audit_entries_visible_to
from tenants.api.filters import StrictFilterSet
from tenants.api.serializers import RowSerializer
from tenants.api.views import ReadingViewSet
from tenants.models import AuditEntry


class AuditEntrySerializer(RowSerializer[AuditEntry]):
    """One thing done; `leaf` is the SHA-256 that proves the row, in hexadecimal.

    `occurred_at` is the service's time of what was done, `recorded_at` the database's time of the
    entry; null in entries from before it was kept.
    """

    organization = serializers.UUIDField(source="organization_id", read_only=True, allow_null=True)
    leaf = serializers.SerializerMethodField()

    class Meta:
        model = AuditEntry
        fields = (
            "id",
            "occurred_at",
            "recorded_at",
            "actor_kind",
            "actor_id",
            "actor_label",
            "action",
            "object_kind",
            "object_id",
            "organization",
            "facts",
            "leaf",
        )
        read_only_fields = fields

    @extend_schema_field(OpenApiTypes.STR)
    def get_leaf(self, entry: AuditEntry) -> str:
        """Return the row's hash."""
        return bytes(entry.leaf).hex()


class AuditEntryFilter(StrictFilterSet):
    """Which entries are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    action = filters.CharFilter()
    object_kind = filters.CharFilter()
    object_id = filters.CharFilter()
    actor_id = filters.CharFilter()
    occurred_from = filters.IsoDateTimeFilter(field_name="occurred_at", lookup_expr="gte")
    occurred_before = filters.IsoDateTimeFilter(field_name="occurred_at", lookup_expr="lt")


class AuditEntryViewSet(ReadingViewSet):
    """Audit entries, newest first."""

    serializer_class = AuditEntrySerializer
    filterset_class = AuditEntryFilter
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[AuditEntry]:
        """Return the trail of the organizations the caller audits."""
        return audit_entries_visible_to(self.actor)

    def get_one(self, pk: int) -> AuditEntry:
        """Return one entry."""
        return access_audit_entry(self.actor, pk)
