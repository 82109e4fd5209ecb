"""/api/v1/pod-explanations/: why a pod was or was not charged, hour by hour."""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import access_pod_explanation
from metering.domain.explain import ChargeVerdict
from metering.selectors.explain import PodName
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet

DAYS_MAX = 31
VERDICT_CHOICES = [(verdict.value, verdict.value) for verdict in ChargeVerdict]


class StepSerializer(serializers.Serializer[object]):
    """One step of an explanation: a heading, a sentence, and the facts behind it."""

    heading = serializers.CharField()
    message = serializers.CharField(source="sentence")
    facts = serializers.DictField()


class HourExplanationSerializer(serializers.Serializer[object]):
    """One hour of a pod."""

    start_at = serializers.DateTimeField()
    verdict = serializers.ChoiceField(choices=VERDICT_CHOICES)
    message = serializers.CharField(source="sentence")
    unit_seconds = serializers.IntegerField()
    held_unit_seconds = serializers.IntegerField()
    steps = StepSerializer(many=True)


class PodExplanationSerializer(serializers.Serializer[object]):
    """What the ledgers hold of a pod, and why each hour was or was not charged."""

    steps = StepSerializer(many=True)
    hours = HourExplanationSerializer(many=True)


class PodQuestionSerializer(StrictSerializer):
    """Which pod, by its uid or by namespace and name, and which hours."""

    cluster = serializers.UUIDField()
    pod_uid = serializers.CharField(max_length=64, required=False, default="")
    namespace = serializers.CharField(max_length=63, required=False, default="")
    pod_name = serializers.CharField(max_length=253, required=False, default="")
    begin_at = serializers.DateTimeField()
    end_at = serializers.DateTimeField()

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuse a question that names no pod, or too many hours."""
        if not attrs["pod_uid"] and not (attrs["namespace"] and attrs["pod_name"]):
            raise serializers.ValidationError(
                {"pod_uid": "Give the pod's uid, or its namespace and pod_name."}
            )
        wanted = attrs["end_at"] - attrs["begin_at"]
        if not timedelta(0) < wanted <= timedelta(days=DAYS_MAX):
            raise serializers.ValidationError(
                {"end_at": f"Ask for more than nothing and at most {DAYS_MAX} days."}
            )
        return attrs


class PodExplanationViewSet(LedgerViewSet):
    """Why a pod was or was not charged."""

    serializer_class = PodExplanationSerializer

    @extend_schema(parameters=[PodQuestionSerializer], responses=PodExplanationSerializer)
    def ask(self, request: Request) -> Response:
        """Return what is known of one pod, hour by hour."""
        question = PodQuestionSerializer(data=request.query_params)
        question.is_valid(raise_exception=True)
        asked = question.validated_data
        explanation = access_pod_explanation(
            self.actor,
            PodName(
                cluster_id=asked["cluster"],
                uid=asked["pod_uid"],
                namespace=asked["namespace"],
                name=asked["pod_name"],
            ),
            begin_at=asked["begin_at"],
            end_at=asked["end_at"],
        )
        return Response(PodExplanationSerializer(explanation).data)
