"""/api/v1/credit-proposals/: usage that broken hardware spoiled, and what is decided about it."""

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import (
    DECIDE_CREDIT,
    READ_CREDIT,
    access_credit,
    credits_visible_to,
)
from metering.api.usage_records import SIZE_CHOICES
from metering.models import CreditProposal, CreditState
from metering.services.devices.credits import decide_credit
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

REASON_LENGTH_MAX = 2_000


class CreditProposalSerializer(serializers.ModelSerializer[CreditProposal]):
    """The part of one usage record that a failure overlaps, with the failure beside it."""

    cluster = serializers.UUIDField(source="cluster_id", read_only=True)
    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    event = serializers.IntegerField(source="event_id", read_only=True)
    event_kind = serializers.CharField(source="event.kind", read_only=True)
    event_code = serializers.CharField(source="event.code", read_only=True)
    event_begin_at = serializers.DateTimeField(source="event.begin_at", read_only=True)
    device = serializers.CharField(source="event.uuid", read_only=True)
    node = serializers.CharField(source="event.node", read_only=True)

    class Meta:
        model = CreditProposal
        fields = (
            "id",
            "window_start",
            "usage_record",
            "cluster",
            "organization",
            "project",
            "owner",
            "namespace",
            "pod_name",
            "pod_uid",
            "resource",
            "size",
            "price_group",
            "unit_seconds",
            "retracted_unit_seconds",
            "is_certain",
            "event",
            "event_kind",
            "event_code",
            "event_begin_at",
            "device",
            "node",
            "state",
            "reason",
            "created_at",
            "decided_at",
        )
        read_only_fields = fields


class CreditDecisionSerializer(StrictSerializer):
    """Why a credit is given, or not."""

    reason = serializers.CharField(max_length=REASON_LENGTH_MAX)


class CreditProposalFilter(StrictFilterSet):
    """Which proposals are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    cluster = filters.UUIDFilter(field_name="cluster_id")
    state = filters.ChoiceFilter(choices=CreditState.choices)
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)
    is_certain = filters.BooleanFilter()
    window_start_from = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="gte")
    window_start_before = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="lt")


class CreditProposalViewSet(ReadingViewSet):
    """Credit proposals, latest hour first."""

    serializer_class = CreditProposalSerializer
    filterset_class = CreditProposalFilter
    ordering = ("-window_start", "-pk")
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[CreditProposal]:
        """Return the proposals of the projects the caller reaches."""
        return credits_visible_to(self.actor)

    def get_one(self, pk: int) -> CreditProposal:
        """Return one proposal."""
        return access_credit(self.actor, pk, READ_CREDIT)

    @extend_schema(request=CreditDecisionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def accept(self, request: Request, pk: int) -> Response:
        """Accept a proposal; billing credits it later."""
        return self._decide(request, pk, CreditState.ACCEPTED)

    @extend_schema(request=CreditDecisionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def dismiss(self, request: Request, pk: int) -> Response:
        """Dismiss a proposal; its usage stays billed."""
        return self._decide(request, pk, CreditState.DISMISSED)

    def _decide(self, request: Request, pk: int, state: CreditState) -> Response:
        found = access_credit(self.actor, pk, DECIDE_CREDIT)
        asked = self.read(CreditDecisionSerializer, request)
        return self.answer(
            decide_credit(
                proposal_id=found.pk,
                state=state,
                reason=asked["reason"],
                actor=self.actor,
                at=self.at,
            )
        )
