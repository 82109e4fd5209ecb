"""/api/v1/headroom/: may so many units start now, and if not, when."""

from typing import Any, Final

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from metering.domain.gpu_sizes import GPUSize
from metering.selectors.cluster_room import ClusterRoom
from quotas.access import READ_LIMIT
from quotas.api.fields import SizeField
from quotas.domain.limit_input import LIMIT_UNITS_MAX, refuse_problems
from quotas.domain.start_question import start_words
from quotas.selectors.headroom import (
    StartAnswer,
    StartQuestion,
    answer_start,
    clusters_of_project,
)
from tenants.access import access_project
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet
from tenants.domain.errors import FieldProblem

NAME_LENGTH_MAX: Final = 150


class HeadroomQuestionSerializer(StrictSerializer):
    """What would start."""

    project = serializers.UUIDField()
    size = SizeField()
    units = serializers.IntegerField(min_value=1, max_value=LIMIT_UNITS_MAX)
    user = serializers.CharField(max_length=NAME_LENGTH_MAX, required=False, default="")
    model_group = serializers.CharField(max_length=32, required=False, default="")
    cluster = serializers.CharField(max_length=63, required=False, default="")
    burst = serializers.BooleanField(required=False, default=False)


class LimitRoomSerializer(serializers.Serializer[Any]):
    """One limit that binds, and what it leaves."""

    id = serializers.UUIDField(source="limit_id")
    scope = serializers.CharField()
    holder = serializers.CharField()
    model_group = serializers.CharField()
    cluster = serializers.CharField()
    limit_units = serializers.IntegerField(allow_null=True)
    used_units = serializers.IntegerField()
    reserved_units = serializers.IntegerField()
    free_units = serializers.IntegerField(allow_null=True)
    is_allowance_used = serializers.BooleanField()


class StartTimeSerializer(serializers.Serializer[Any]):
    """When it would fit, as likely earlier as later (p50), and nine times in ten (p90)."""

    p50 = serializers.DateTimeField(source="median_at")
    p90 = serializers.DateTimeField(source="sure_at", allow_null=True)
    basis = serializers.CharField()
    pods_without_estimate = serializers.IntegerField()


class ClusterRoomSerializer(serializers.Serializer[ClusterRoom]):
    """What the nodes of a cluster have left of the size, for all tenants together."""

    cluster = serializers.CharField(source="slug")
    seen_at = serializers.DateTimeField(allow_null=True)
    offered_units = serializers.IntegerField(allow_null=True)
    held_units = serializers.IntegerField()
    free_units = serializers.IntegerField(allow_null=True)


class HeadroomSerializer(serializers.Serializer[StartAnswer]):
    """The answer, with every limit's room."""

    fits = serializers.BooleanField(source="verdict.fits")
    code = serializers.CharField(source="verdict.code.value")
    why = serializers.SerializerMethodField()
    free_units = serializers.IntegerField(source="verdict.free_units", allow_null=True)
    cluster = serializers.CharField()
    blocked_by = LimitRoomSerializer(source="verdict.blocker", allow_null=True)
    limits = LimitRoomSerializer(many=True)
    when = StartTimeSerializer(allow_null=True)
    clusters = ClusterRoomSerializer(many=True)
    hint = serializers.SerializerMethodField()

    def get_why(self, answer: StartAnswer) -> str:
        """Return the answer as a sentence."""
        asked = self.context["question"]
        return start_words(answer.verdict, size=asked.size.value, units=asked.units)

    def get_hint(self, answer: StartAnswer) -> str | None:
        """Return "cluster_full" where quota allows what no cluster has room for."""
        free = [cluster.free_units for cluster in answer.clusters]
        known = [units for units in free if units is not None]
        is_full = bool(known) and len(known) == len(free)
        asked = self.context["question"].units
        return "cluster_full" if answer.verdict.fits and is_full and max(known) < asked else None


class HeadroomViewSet(LedgerViewSet):
    """Whether something may start. Nothing is reserved by asking."""

    serializer_class = HeadroomSerializer

    @extend_schema(parameters=[HeadroomQuestionSerializer], responses=HeadroomSerializer)
    def ask(self, request: Request) -> Response:
        """Answer for now: cheap, and never kept by a cache."""
        serializer = HeadroomQuestionSerializer(data=request.query_params.dict())
        serializer.is_valid(raise_exception=True)
        question = self._question(serializer.validated_data)
        clusters = clusters_of_project(question, at=self.at)
        if question.cluster and not clusters:
            message = "The project has no namespace in a cluster of that name."
            refuse_problems([FieldProblem("cluster", "cluster_unknown", message)])
        answer = answer_start(
            question,
            clusters=clusters,
            at=self.at,
            burst_classes=settings.BURST_PRIORITY_CLASSES,
        )
        body = HeadroomSerializer(answer, context={"question": question}).data
        return Response(body, headers={"Cache-Control": "no-store"})

    def _question(self, asked: dict[str, Any]) -> StartQuestion:
        return StartQuestion(
            project=access_project(self.actor, asked["project"], READ_LIMIT),
            size=GPUSize(asked["size"]),
            units=asked["units"],
            username=asked["user"],
            model_group=asked["model_group"],
            cluster=asked["cluster"],
            is_burst=asked["burst"],
        )
