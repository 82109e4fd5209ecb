"""/api/v1/clusters/: where GPUs are, and how they are observed."""

from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.access import (
    READ_CLUSTER,
    access_cluster,
    clusters_visible_to,
    require_capability,
)
from tenants.adapters import cluster_advice
from tenants.adapters.cluster_reach import reach_problems, read_secrets
from tenants.api.conditional import if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.models import Cluster
from tenants.models.cluster import AdmissionMode, FailurePolicy, QuotaTarget
from tenants.models.organization import LifecycleState
from tenants.selectors.directory import references_with
from tenants.services.clusters import close_cluster, register_cluster, update_cluster

WRITE = "tenants:cluster:write"
SCRAPE_INTERVAL_SECONDS_MAX = 3600


class AliasesField(serializers.DictField):
    """A site's names by ours, best first."""

    child = serializers.ListField(child=serializers.CharField(max_length=200))


class ClusterSerializer(serializers.ModelSerializer[Cluster]):
    """A cluster; its credential is named, never shown."""

    label_aliases = AliasesField(read_only=True)
    metric_aliases = AliasesField(read_only=True)
    offered_resources = serializers.ListField(child=serializers.CharField(), read_only=True)
    trusted_controllers = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Cluster
        fields = (
            "id",
            "slug",
            "name",
            "state",
            "kubernetes_url",
            "is_watched",
            "prometheus_url",
            "prometheus_credential_reference",
            "prometheus_scope_org_id",
            "credential_reference",
            "credential_expires_at",
            "selector_label",
            "selector_value",
            "scrape_interval_seconds",
            "user_label",
            "offered_resources",
            "label_aliases",
            "metric_aliases",
            "admission_mode",
            "admission_on_failure",
            "kubernetes_user_prefix",
            "trusted_controllers",
            "quota_target",
            "metered_from",
            "metered_until",
            "closed_at",
            "version",
            "created_at",
        )
        read_only_fields = fields


class OneClusterSerializer(ClusterSerializer):
    """One cluster, with what may be wrong about it."""

    warnings = serializers.SerializerMethodField(
        help_text="Offered resources that no rule of the size catalogue names, one sentence each."
    )

    class Meta:
        model = Cluster
        fields = (*ClusterSerializer.Meta.fields, "warnings")
        read_only_fields = fields

    def get_warnings(self, cluster: Cluster) -> list[str]:
        """Return a sentence for each offered resource without a size."""
        return list(cluster_advice(settings.CLUSTER_ADVICE)(cluster.offered_resources))


class ClusterChangeSerializer(StrictSerializer):
    """What may be changed of a cluster."""

    name = serializers.CharField(max_length=200)
    kubernetes_url = serializers.CharField(max_length=200, allow_blank=True, required=False)
    is_watched = serializers.BooleanField(
        required=False, help_text="Whether the allocation ledger is kept from its Kubernetes API."
    )
    prometheus_url = serializers.CharField(max_length=200, allow_blank=True, required=False)
    prometheus_credential_reference = serializers.CharField(
        max_length=200, allow_blank=True, required=False
    )
    prometheus_scope_org_id = serializers.CharField(
        max_length=256, allow_blank=True, required=False
    )
    credential_reference = serializers.CharField(max_length=200, allow_blank=True, required=False)
    selector_label = serializers.CharField(max_length=64, allow_blank=True, required=False)
    selector_value = serializers.CharField(max_length=128, allow_blank=True, required=False)
    scrape_interval_seconds = serializers.IntegerField(
        min_value=1, max_value=SCRAPE_INTERVAL_SECONDS_MAX, required=False
    )
    user_label = serializers.CharField(max_length=128, allow_blank=True, required=False)
    offered_resources = serializers.ListField(
        child=serializers.CharField(max_length=253), required=False
    )
    label_aliases = AliasesField(required=False)
    metric_aliases = AliasesField(required=False)
    admission_mode = serializers.ChoiceField(
        choices=AdmissionMode.choices,
        required=False,
        help_text="What the webhook does with its pods; all but off take a watched cluster.",
    )
    admission_on_failure = serializers.ChoiceField(
        choices=FailurePolicy.choices,
        required=False,
        help_text="What a pod is answered while the database cannot be reached.",
    )
    kubernetes_user_prefix = serializers.CharField(max_length=64, allow_blank=True, required=False)
    trusted_controllers = serializers.ListField(
        child=serializers.CharField(max_length=253), required=False
    )
    quota_target = serializers.ChoiceField(choices=QuotaTarget.choices, required=False)
    metered_from = serializers.DateTimeField(
        required=False, help_text="The start of a UTC hour; only an earlier one."
    )
    metered_until = serializers.DateTimeField(
        required=False,
        allow_null=True,
        help_text="The start of the first UTC hour that is no longer metered; null for none.",
    )


class ClusterInputSerializer(ClusterChangeSerializer):
    """A new cluster."""

    slug = serializers.CharField(max_length=63)
    metered_from = serializers.DateTimeField(help_text="The start of a UTC hour.")
    metered_until = None  # type: ignore[assignment] # The framework's way to leave a field out.


class ClusterFilter(StrictFilterSet):
    """Which clusters are listed."""

    slug = filters.CharFilter()
    state = filters.ChoiceFilter(choices=LifecycleState.choices)


class ClusterViewSet(ReadingViewSet):
    """Clusters."""

    serializer_class = OneClusterSerializer
    filterset_class = ClusterFilter
    ordering = "slug"
    orderings = ("name", "created_at")

    def get_serializer_class(self) -> type[ClusterSerializer]:
        """Return the fields of a list, which are read in one statement, or of one cluster."""
        return ClusterSerializer if self.action == "list" else OneClusterSerializer

    def get_queryset(self) -> QuerySet[Cluster]:
        """Return every cluster to the platform's people, none to others."""
        return clusters_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Cluster:
        """Return one cluster."""
        return access_cluster(self.actor, pk, READ_CLUSTER)

    @extend_schema(request=ClusterInputSerializer)
    @idempotent(is_required=False)
    def create(self, request: Request) -> Response:
        """Register a cluster; it is metered from the given hour on."""
        fields = self.read(ClusterInputSerializer, request)
        require_capability(self.actor, WRITE)
        made = register_cluster(
            **fields,
            problems=reach_problems(fields),
            secrets=read_secrets(references_with(fields)),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=ClusterChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change how a cluster is reached, observed or named, and which hours are metered."""
        cluster = access_cluster(self.actor, pk, WRITE)
        changes = self.read_changes(ClusterChangeSerializer, request)
        return self.change(
            request,
            update_cluster,
            cluster=cluster,
            changes=changes,
            problems=reach_problems(changes),
            secrets=read_secrets(references_with(changes)),
        )

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    @if_match
    def close(self, request: Request, pk: UUID) -> Response:
        """Close a cluster whose namespaces are no longer bound."""
        cluster = access_cluster(self.actor, pk, WRITE)
        self.read(EmptySerializer, request)
        return self.change(request, close_cluster, cluster=cluster)
