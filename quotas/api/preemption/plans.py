"""/api/v1/preemption-plans/: dry run of the workloads to preempt, and its execution."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.domain.catalogue.units import GPUSize
from quotas.access import (
    PLAN_PREEMPTION,
    READ_PREEMPTION,
    WRITE_PREEMPTION,
    access_plan,
    plans_visible_to,
)
from quotas.adapters import workload_evictor
from quotas.api.fields import SizeField, WholeUnitsField
from quotas.models import PreemptionAction, PreemptionPlan
from quotas.models.preemption import PLAN_STATES
from quotas.services.preemption.planning import YieldDemand, plan_preemption
from quotas.services.preemption.resuming import Resumption, resume_jobs
from quotas.services.preemption.running import execute_plan, stop_plan
from tenants.access import READ_CLUSTER, access_cluster, access_organization
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.domain.actors import Actor

YIELDS_MAX = 20


class PreemptionActionSerializer(serializers.ModelSerializer[PreemptionAction]):
    """What is, or would be, done about one pod."""

    cluster = serializers.CharField(source="cluster.slug", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    started_at = serializers.DateTimeField(read_only=True)
    reason = serializers.CharField(read_only=True)

    class Meta:
        model = PreemptionAction
        fields = (
            "victim",
            "cluster",
            "namespace",
            "pod_name",
            "pod_uid",
            "controller",
            "project",
            "username",
            "priority",
            "is_burst",
            "units",
            "started_at",
            "reason",
            "step",
            "state",
            "attempt",
            "not_before",
            "outcome",
            "message",
            "acted_at",
            "resumed_at",
        )
        read_only_fields = fields


class PreemptionPlanSerializer(serializers.ModelSerializer[PreemptionPlan]):
    """A plan, without its victims."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)

    class Meta:
        model = PreemptionPlan
        fields: tuple[str, ...] = (
            "id",
            "organization",
            "reason",
            "state",
            "is_dry_run",
            "overage",
            "remainders",
            "planned_by",
            "executed_by",
            "created_at",
            "expires_at",
            "notified_at",
            "not_before",
            "end_at",
            "message",
            "version",
        )
        read_only_fields = fields


class PreemptionPlanDetailSerializer(PreemptionPlanSerializer):
    """A plan with its victims, in the order of going."""

    victims = serializers.SerializerMethodField()

    class Meta(PreemptionPlanSerializer.Meta):
        fields = (*PreemptionPlanSerializer.Meta.fields, "victims")
        read_only_fields = fields

    @extend_schema_field(PreemptionActionSerializer(many=True))
    def get_victims(self, plan: PreemptionPlan) -> Any:  # noqa: ANN401 - A JSON document.
        """Return the steps about each pod."""
        rows = plan.actions.select_related("cluster")
        return PreemptionActionSerializer(rows, many=True).data


class YieldInputSerializer(StrictSerializer):
    """How much burst must yield."""

    size = SizeField()
    units = WholeUnitsField()
    cluster = serializers.UUIDField(required=False, allow_null=True, default=None)


class PreemptionPlanInputSerializer(StrictSerializer):
    """Whose plan is to be made."""

    organization = serializers.UUIDField()
    yields = serializers.ListField(
        child=YieldInputSerializer(), required=False, max_length=YIELDS_MAX
    )


class ResumptionSerializer(serializers.Serializer[Resumption]):
    """What became of one suspended Job."""

    namespace = serializers.CharField()
    job = serializers.CharField()
    is_resumed = serializers.BooleanField()
    reason = serializers.CharField(source="why", allow_blank=True)


class ResumptionsSerializer(serializers.Serializer[Any]):
    """What became of every Job a plan has suspended."""

    results = ResumptionSerializer(many=True)


class PreemptionPlanFilter(StrictFilterSet):
    """Which plans are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    state = filters.ChoiceFilter(choices=PLAN_STATES)
    is_dry_run = filters.BooleanFilter()


class PreemptionPlanViewSet(ReadingViewSet):
    """Preemption plans."""

    serializer_class = PreemptionPlanSerializer
    filterset_class = PreemptionPlanFilter
    ordering = ("-created_at", "-pk")

    def get_queryset(self) -> QuerySet[PreemptionPlan]:
        """Return the plans the caller may read."""
        return plans_visible_to(self.actor)

    def get_serializer_class(self) -> type[serializers.BaseSerializer[Any]]:
        """Return the short form for lists, and the victims with everything else."""
        is_list = self.action == "list"
        return PreemptionPlanSerializer if is_list else PreemptionPlanDetailSerializer

    def get_one(self, pk: UUID) -> PreemptionPlan:
        """Return one plan."""
        return access_plan(self.actor, pk, READ_PREEMPTION)

    @extend_schema(responses=PreemptionPlanDetailSerializer)
    def retrieve(self, request: Request, pk: UUID) -> Response:
        """Return a plan with its victims and how far it has come."""
        return super().retrieve(request, pk)

    @extend_schema(
        request=PreemptionPlanInputSerializer, responses={201: PreemptionPlanDetailSerializer}
    )
    @idempotent()
    def create(self, request: Request) -> Response:
        """Plan which pods to end so that an organization fits its limits; a dry run."""
        fields = self.read(PreemptionPlanInputSerializer, request)
        plan = plan_preemption(
            organization=access_organization(self.actor, fields["organization"], PLAN_PREEMPTION),
            yields=[_yield_of(self.actor, one) for one in fields.get("yields", [])],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(plan, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=EmptySerializer, responses=PreemptionPlanDetailSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def execute(self, request: Request, pk: UUID) -> Response:
        """Execute a plan: the owners of its pods are notified; the steps begin after a grace."""
        plan = access_plan(self.actor, pk, WRITE_PREEMPTION)
        self.read(EmptySerializer, request)
        executed = execute_plan(
            plan_id=plan.pk,
            grace=timedelta(seconds=settings.PREEMPTION_GRACE_SECONDS),
            burst_classes=tuple(settings.BURST_PRIORITY_CLASSES),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(executed)

    @extend_schema(request=EmptySerializer, responses=PreemptionPlanDetailSerializer)
    @action(detail=True, methods=["post"])
    @idempotent(is_required=False)
    def stop(self, request: Request, pk: UUID) -> Response:
        """Take no further step of a plan; what has begun is not undone."""
        plan = access_plan(self.actor, pk, WRITE_PREEMPTION)
        self.read(EmptySerializer, request)
        return self.answer(stop_plan(plan_id=plan.pk, actor=self.actor, at=self.at))

    @extend_schema(request=EmptySerializer, responses=ResumptionsSerializer)
    @action(detail=True, methods=["post"], url_path="resume-jobs")
    def resume_jobs(self, request: Request, pk: UUID) -> Response:
        """Resume the Jobs a plan has suspended, as far as they fit. Doing it twice is once."""
        plan = access_plan(self.actor, pk, WRITE_PREEMPTION)
        self.read(EmptySerializer, request)
        results = resume_jobs(
            plan_id=plan.pk,
            evictor=workload_evictor(settings.WORKLOAD_EVICTOR),
            actor=self.actor,
            at=self.at,
        )
        return Response(ResumptionsSerializer({"results": results}).data)


def _yield_of(actor: Actor, fields: dict[str, Any]) -> YieldDemand:
    """Return what must yield; a cluster the caller does not see does not exist."""
    cluster = fields["cluster"]
    found = None if cluster is None else access_cluster(actor, cluster, READ_CLUSTER)
    return YieldDemand(
        size=GPUSize(fields["size"]),
        units=fields["units"],
        cluster_id=None if found is None else found.pk,
    )
