"""/api/v1/quota-requests/: a tenant lead asks, somebody else decides."""

from collections.abc import Callable
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.access import (
    DECIDE_REQUEST,
    READ_REQUEST,
    SUBMIT_REQUEST,
    access_request,
    requests_visible_to,
)
from quotas.api.fields import SizeField, WholeUnitsField
from quotas.domain.limit_input import JUSTIFICATION_LENGTH_MAX, NOTE_LENGTH_MAX
from quotas.models import QuotaRequest, RequestState
from quotas.models.limit import SIZE_CHOICES
from quotas.services.requests import (
    approve_request,
    cancel_request,
    reject_request,
    submit_request,
)
from tenants.access import access_project
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet

Decision = Callable[..., QuotaRequest]


class QuotaRequestSerializer(serializers.ModelSerializer[QuotaRequest]):
    """A request, and what became of it."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    requested_by = serializers.CharField(source="requested_by.username", read_only=True)
    decided_by = serializers.SerializerMethodField()

    class Meta:
        model = QuotaRequest
        fields = (
            "id",
            "organization",
            "project",
            "size",
            "requested_units",
            "units_before",
            "justification",
            "state",
            "requested_by",
            "decided_by",
            "decided_at",
            "decision_note",
            "version",
            "created_at",
        )
        read_only_fields = fields

    def get_decided_by(self, request: QuotaRequest) -> str | None:
        """Return who decided; None while nobody has."""
        return None if request.decided_by is None else request.decided_by.username


class QuotaRequestInputSerializer(StrictSerializer):
    """What is asked for, and why."""

    project = serializers.UUIDField()
    size = SizeField()
    requested_units = WholeUnitsField()
    justification = serializers.CharField(max_length=JUSTIFICATION_LENGTH_MAX)


class QuotaDecisionSerializer(StrictSerializer):
    """What is said with a decision."""

    note = serializers.CharField(
        max_length=NOTE_LENGTH_MAX, allow_blank=True, required=False, default=""
    )


class QuotaRequestFilter(StrictFilterSet):
    """Which requests are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)
    state = filters.ChoiceFilter(choices=RequestState.choices)
    requested_by = filters.CharFilter(field_name="requested_by__username")


class QuotaRequestViewSet(ReadingViewSet):
    """Quota requests."""

    serializer_class = QuotaRequestSerializer
    filterset_class = QuotaRequestFilter
    ordering = ("-created_at", "-pk")

    def get_queryset(self) -> QuerySet[QuotaRequest]:
        """Return the requests the caller may read."""
        return requests_visible_to(self.actor)

    def get_one(self, pk: UUID) -> QuotaRequest:
        """Return one request."""
        return access_request(self.actor, pk, READ_REQUEST)

    @extend_schema(request=QuotaRequestInputSerializer, responses={201: QuotaRequestSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Ask for a project's limit of one size to become a number."""
        fields = self.read(QuotaRequestInputSerializer, request)
        project = access_project(self.actor, fields.pop("project"), SUBMIT_REQUEST)
        made = submit_request(project=project, **fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=QuotaDecisionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def approve(self, request: Request, pk: UUID) -> Response:
        """Grant a request: the project's limit becomes what was asked. Doing it twice is once."""
        return self._decide(approve_request, request, pk, capability=DECIDE_REQUEST)

    @extend_schema(request=QuotaDecisionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent(is_required=False)
    def reject(self, request: Request, pk: UUID) -> Response:
        """Turn a request down; the limit stays."""
        return self._decide(reject_request, request, pk, capability=DECIDE_REQUEST)

    @extend_schema(request=QuotaDecisionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent(is_required=False)
    def cancel(self, request: Request, pk: UUID) -> Response:
        """Withdraw a request that nobody has decided."""
        return self._decide(cancel_request, request, pk, capability=SUBMIT_REQUEST)

    def _decide(self, decide: Decision, request: Request, pk: UUID, *, capability: str) -> Response:
        found = access_request(self.actor, pk, capability)
        note = self.read(QuotaDecisionSerializer, request)["note"]
        return self.answer(decide(request_id=found.pk, note=note, actor=self.actor, at=self.at))
