"""/api/v1/catalogue-versions/: which GPU resource is which size, and what an edit would change."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import (
    access_catalogue_version,
    allow_catalogue_edit,
    catalogue_versions_visible_to,
)
from metering.models import CatalogueVersion
from metering.services.catalogue import add_catalogue_version, preview_catalogue
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

NOTE_LENGTH_MAX = 2_000


class CatalogueVersionSerializer(serializers.ModelSerializer[CatalogueVersion]):
    """One version of the size rules; the newest is in force."""

    class Meta:
        model = CatalogueVersion
        fields = ("version", "rules", "digest", "note", "created_by", "created_at")
        read_only_fields = fields


class ProposedRulesSerializer(StrictSerializer):
    """Rules, first match first; see docs/reference/catalogue.md."""

    rules = serializers.JSONField()


class NewCatalogueVersionSerializer(ProposedRulesSerializer):
    """The next version, what it was edited from, and why."""

    based_on = serializers.IntegerField(min_value=1)
    note = serializers.CharField(max_length=NOTE_LENGTH_MAX)


class DifferenceSerializer(serializers.Serializer[object]):
    """One kind of hardware that the proposed rules would call otherwise."""

    resource = serializers.CharField()
    product = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()
    is_refused = serializers.BooleanField()
    open_units = serializers.IntegerField()
    unit_seconds = serializers.IntegerField()


class CatalogueVersionViewSet(ReadingViewSet):
    """Catalogue versions, newest first."""

    serializer_class = CatalogueVersionSerializer
    ordering = ("-version",)
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[CatalogueVersion]:
        """Return the versions that the caller may read."""
        return catalogue_versions_visible_to(self.actor)

    def get_one(self, pk: int) -> CatalogueVersion:
        """Return one version."""
        return access_catalogue_version(self.actor, pk)

    @extend_schema(request=NewCatalogueVersionSerializer, responses=CatalogueVersionSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Store the next version; it is in force at once."""
        allow_catalogue_edit(self.actor)
        asked = self.read(NewCatalogueVersionSerializer, request)
        stored = add_catalogue_version(**asked, actor=self.actor, at=self.at)
        return self.answer(stored, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=ProposedRulesSerializer, responses=DifferenceSerializer(many=True))
    @action(detail=False, methods=["post"], pagination_class=None)
    def preview(self, request: Request) -> Response:
        """Return what proposed rules would call otherwise; nothing is stored."""
        allow_catalogue_edit(self.actor)
        asked = self.read(ProposedRulesSerializer, request)
        found = preview_catalogue(rules=asked["rules"], actor=self.actor, at=self.at)
        return Response(DifferenceSerializer(found, many=True).data)
