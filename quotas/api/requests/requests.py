"""/api/v1/quota-requests/: requests of tenant leads, and decisions by the policy's levels."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from quotas.access import (
    READ_REQUEST,
    SUBMIT_REQUEST,
    access_cluster_of,
    access_person,
    access_request,
    access_request_to_decide,
    is_cost_visible,
    requests_visible_to,
)
from quotas.adapters import cost_estimator
from quotas.api.requests.serializers import (
    PreviewSerializer,
    QuotaBulkInputSerializer,
    QuotaCommentInputSerializer,
    QuotaCommentSerializer,
    QuotaDecisionSerializer,
    QuotaPreviewInputSerializer,
    QuotaRenewalSerializer,
    QuotaRequestInputSerializer,
    QuotaRequestSerializer,
)
from quotas.models import QuotaRequest, RequestState
from quotas.models.limit import SIZE_CHOICES
from quotas.protocols.costs import CostEstimator
from quotas.services.requests.asking import (
    RequestDraft,
    comment_request,
    make_request,
    make_requests,
    renew_request,
)
from quotas.services.requests.deciding import approve_request, cancel_request, reject_request
from quotas.services.requests.preview import preview_request
from tenants.access import access_project
from tenants.api.filters import StrictFilterSet, UpdatedFromFilter
from tenants.api.idempotency import idempotent
from tenants.api.views import ReadingViewSet
from tenants.domain.actors import Actor

Decision = Callable[..., QuotaRequest]


class QuotaRequestFilter(StrictFilterSet):
    """Which requests are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)
    state = filters.ChoiceFilter(choices=RequestState.choices)
    requested_by = filters.CharFilter(field_name="requested_by__username")
    updated_from = UpdatedFromFilter(
        "created_at",
        "decided_at",
        help_text="Only requests made, decided, withdrawn or expired at this time or since; "
        "comments and steps in between do not count.",
    )


class QuotaRequestViewSet(ReadingViewSet):
    """Quota requests."""

    serializer_class = QuotaRequestSerializer
    filterset_class = QuotaRequestFilter
    ordering = ("-created_at", "-pk")

    def get_queryset(self) -> QuerySet[QuotaRequest]:
        """Return the requests the caller may read."""
        return requests_visible_to(self.actor)

    def get_serializer_context(self) -> dict[str, Any]:
        """Return the serializer's context with the caller."""
        return {**super().get_serializer_context(), "actor": self.actor}

    def get_one(self, pk: UUID) -> QuotaRequest:
        """Return one request."""
        return access_request(self.actor, pk, READ_REQUEST)

    @extend_schema(request=QuotaRequestInputSerializer, responses={201: QuotaRequestSerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Ask that a project, or a user in it, may hold so many units of a size in all."""
        draft = draft_of(self.read(QuotaRequestInputSerializer, request), actor=self.actor)
        made = make_request(draft=draft, estimator=_estimator(), actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=QuotaPreviewInputSerializer, responses=PreviewSerializer, filters=False)
    @action(detail=False, methods=["post"], pagination_class=None)
    def preview(self, request: Request) -> Response:
        """Return what a request would cost, who would decide it, and what prevents it."""
        draft = draft_of(self.read(QuotaPreviewInputSerializer, request), actor=self.actor)
        preview = preview_request(draft=draft, estimator=_estimator(), actor=self.actor, at=self.at)
        organization_id, project_id = draft.project.organization_id, draft.project.pk
        shows_cost = is_cost_visible(
            self.actor, organization_id=organization_id, project_id=project_id
        )
        return Response(PreviewSerializer(preview, context={"is_cost_visible": shows_cost}).data)

    @extend_schema(
        request=QuotaBulkInputSerializer,
        responses={201: QuotaRequestSerializer(many=True)},
        filters=False,
    )
    @action(detail=False, methods=["post"], pagination_class=None)
    @idempotent()
    def bulk(self, request: Request) -> Response:
        """Ask for several things at once: all requests are made, or none."""
        rows = self.read(QuotaBulkInputSerializer, request)["requests"]
        made = make_requests(
            drafts=[draft_of(row, actor=self.actor) for row in rows],
            estimator=_estimator(),
            actor=self.actor,
            at=self.at,
        )
        return Response(self.get_serializer(made, many=True).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=QuotaRenewalSerializer, responses={201: QuotaRequestSerializer})
    @action(detail=False, methods=["post"])
    @idempotent()
    def renew(self, request: Request) -> Response:
        """Request that units approved until a time continue after it."""
        fields = self.read(QuotaRenewalSerializer, request)
        found = access_request(self.actor, fields.pop("renews"), SUBMIT_REQUEST)
        made = renew_request(
            request=found, **fields, estimator=_estimator(), actor=self.actor, at=self.at
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=QuotaCommentInputSerializer, responses={201: QuotaCommentSerializer})
    @action(detail=True, methods=["post"])
    @idempotent(is_required=False)
    def comments(self, request: Request, pk: UUID) -> Response:
        """Comment on a request; all its readers see the comment."""
        found = access_request(self.actor, pk, READ_REQUEST)
        text = self.read(QuotaCommentInputSerializer, request)["text"]
        comment = comment_request(request_id=found.pk, text=text, actor=self.actor, at=self.at)
        return Response(QuotaCommentSerializer(comment).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=QuotaDecisionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def approve(self, request: Request, pk: UUID) -> Response:
        """Approve the current step; after the last one the request takes effect."""
        return self._decide(approve_request, request, access_request_to_decide(self.actor, pk))

    @extend_schema(request=QuotaDecisionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent(is_required=False)
    def reject(self, request: Request, pk: UUID) -> Response:
        """Reject a request; the limit stays."""
        return self._decide(reject_request, request, access_request_to_decide(self.actor, pk))

    @extend_schema(request=QuotaDecisionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent(is_required=False)
    def cancel(self, request: Request, pk: UUID) -> Response:
        """Withdraw an undecided request."""
        found = access_request(self.actor, pk, SUBMIT_REQUEST)
        return self._decide(cancel_request, request, found)

    def _decide(self, decide: Decision, request: Request, found: QuotaRequest) -> Response:
        note = self.read(QuotaDecisionSerializer, request)["note"]
        decide(request_id=found.pk, note=note, actor=self.actor, at=self.at)
        return self.answer(self.get_one(found.pk))


def draft_of(fields: Mapping[str, Any], *, actor: Actor) -> RequestDraft:
    """Return a request with everything it names, as far as the caller may see it.

    Raises:
        NotFoundError: Something it names does not exist for the caller.
        ForbiddenError: The caller may not ask for the project.
    """
    wanted = dict(fields)
    project = access_project(actor, wanted.pop("project"), SUBMIT_REQUEST)
    username, slug = wanted.pop("user", ""), wanted.pop("cluster", "")
    supersedes = wanted.pop("supersedes", None)
    return RequestDraft(
        project=project,
        user=access_person(project.organization, username) if username else None,
        cluster=access_cluster_of(actor, project.organization, slug) if slug else None,
        supersedes=(
            None if supersedes is None else access_request(actor, supersedes, SUBMIT_REQUEST)
        ),
        **wanted,
    )


def _estimator() -> CostEstimator:
    return cost_estimator(settings.COST_ESTIMATOR)
