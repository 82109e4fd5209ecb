"""/api/v1/quota-loans/, and /api/v1/loan-policies/ with what was agreed about them."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.mixins import ListModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from metering.domain.efficiency.rules import thresholds_of
from quotas.access import (
    READ_LIMIT,
    WRITE_LIMIT,
    access_loan,
    loan_policies_visible_to,
    loans_visible_to,
)
from quotas.domain.lending import DAYS_MAX
from quotas.domain.limits.input import LIMIT_UNITS_MAX, NOTE_LENGTH_MAX
from quotas.models import LoanMode, LoanPolicy, LoanState, QuotaLoan
from quotas.models.limit import SIZE_CHOICES
from quotas.selectors.lending import LendingTerms
from quotas.services.lending.loans import approve_loan, decline_loan, recall_loan
from quotas.services.lending.proposals import set_loan_policy
from tenants.access import access_organization
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet, ReadingViewSet
from tenants.domain.actors import Actor

Move = Callable[..., QuotaLoan]


class QuotaLoanSerializer(serializers.ModelSerializer[QuotaLoan]):
    """A loan and its outcome.

    What the lender leaves idle and what the borrower misses are null to those who may not read the
    limits of that project.
    """

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    lender = serializers.UUIDField(source="lender_id", read_only=True)
    borrower = serializers.UUIDField(source="borrower_id", read_only=True)
    cluster = serializers.UUIDField(source="cluster_id", read_only=True, allow_null=True)
    lender_idle_units = serializers.IntegerField(read_only=True, allow_null=True)
    borrower_missing_units = serializers.IntegerField(read_only=True, allow_null=True)
    decided_by = serializers.SerializerMethodField()

    class Meta:
        model = QuotaLoan
        fields = (
            "id",
            "organization",
            "lender",
            "borrower",
            "size",
            "model_group",
            "cluster",
            "units",
            "begin_at",
            "end_at",
            "state",
            "lender_idle_units",
            "borrower_missing_units",
            "is_automatic",
            "decided_by",
            "decided_at",
            "note",
            "version",
            "created_at",
        )
        read_only_fields = fields

    def to_representation(self, instance: QuotaLoan) -> dict[str, Any]:
        """Return it, as far as the caller may read the figures of either side."""
        represented = super().to_representation(instance)
        actor: Actor = self.context["actor"]
        sides = {
            "lender_idle_units": instance.lender_id,
            "borrower_missing_units": instance.borrower_id,
        }
        hidden = [
            name
            for name, project_id in sides.items()
            if not actor.may(
                READ_LIMIT, organization_id=instance.organization_id, project_id=project_id
            )
        ]
        return {**represented, **dict.fromkeys(hidden)}

    def get_decided_by(self, loan: QuotaLoan) -> str | None:
        """Return the decider; None while undecided, or when the policy decided."""
        return None if loan.decided_by is None else loan.decided_by.username


class LoanDecisionSerializer(StrictSerializer):
    """The note of a decision."""

    note = serializers.CharField(
        max_length=NOTE_LENGTH_MAX, allow_blank=True, required=False, default=""
    )


class QuotaLoanFilter(StrictFilterSet):
    """Which loans are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    lender = filters.UUIDFilter(field_name="lender_id")
    borrower = filters.UUIDFilter(field_name="borrower_id")
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)
    state = filters.ChoiceFilter(choices=LoanState.choices)


class QuotaLoanViewSet(ReadingViewSet):
    """Loans between projects of one organization."""

    serializer_class = QuotaLoanSerializer
    filterset_class = QuotaLoanFilter
    ordering = ("-created_at", "-pk")

    def get_serializer_context(self) -> dict[str, Any]:
        """Return the serializer's context with the caller."""
        return {**super().get_serializer_context(), "actor": self.actor}

    def get_queryset(self) -> QuerySet[QuotaLoan]:
        """Return the loans the caller may read."""
        return loans_visible_to(self.actor)

    def get_one(self, pk: UUID) -> QuotaLoan:
        """Return one loan."""
        return access_loan(self.actor, pk, READ_LIMIT)

    @extend_schema(request=LoanDecisionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def approve(self, request: Request, pk: UUID) -> Response:
        """Put a proposed loan into force, until the policy's number of days from now."""
        terms = LendingTerms(
            burst_classes=settings.BURST_PRIORITY_CLASSES,
            thresholds=thresholds_of(settings.WASTE_THRESHOLDS),
        )
        return self._move(approve_loan, request, pk, terms=terms)

    @extend_schema(request=LoanDecisionSerializer)
    @action(detail=True, methods=["post"])
    @idempotent(is_required=False)
    def decline(self, request: Request, pk: UUID) -> Response:
        """Reject a proposed loan."""
        return self._move(decline_loan, request, pk)

    @extend_schema(request=LoanDecisionSerializer)
    @action(detail=True, methods=["post"])
    def recall(self, request: Request, pk: UUID) -> Response:
        """End a loan now: both halves of it. Doing it twice is once, so it takes no key."""
        return self._move(recall_loan, request, pk)

    def _move(self, move: Move, request: Request, pk: UUID, **terms: object) -> Response:
        found = access_loan(self.actor, pk, WRITE_LIMIT)
        note = self.read(LoanDecisionSerializer, request)["note"]
        moved = move(loan_id=found.pk, note=note, actor=self.actor, at=self.at, **terms)
        return self.answer(moved)


class LoanPolicySerializer(serializers.ModelSerializer[LoanPolicy]):
    """What an organization has agreed about loans."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)

    class Meta:
        model = LoanPolicy
        fields = (
            "organization",
            "mode",
            "max_units",
            "max_days",
            "keep_free_percent",
            "version",
            "changed_at",
        )
        read_only_fields = fields


class LoanPolicyInputSerializer(StrictSerializer):
    """What is agreed."""

    organization = serializers.UUIDField()
    mode = serializers.ChoiceField(choices=LoanMode.choices)
    max_units = serializers.IntegerField(min_value=1, max_value=LIMIT_UNITS_MAX)
    max_days = serializers.IntegerField(min_value=1, max_value=DAYS_MAX)
    keep_free_percent = serializers.IntegerField(min_value=0, max_value=100)


class LoanPolicyFilter(StrictFilterSet):
    """Which policies are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")


class LoanPolicyViewSet(ListModelMixin, LedgerViewSet):
    """Policies about loans; an organization without one has the defaults."""

    serializer_class = LoanPolicySerializer
    filterset_class = LoanPolicyFilter
    ordering = ("organization_id",)

    def get_queryset(self) -> QuerySet[Any]:
        """Return the policies the caller may read."""
        return loan_policies_visible_to(self.actor)

    @extend_schema(request=LoanPolicyInputSerializer, responses={201: LoanPolicySerializer})
    @idempotent()
    def create(self, request: Request) -> Response:
        """Set an organization's policy, new or instead of the one it had."""
        fields = self.read(LoanPolicyInputSerializer, request)
        organization = access_organization(self.actor, fields.pop("organization"), WRITE_LIMIT)
        policy = set_loan_policy(organization=organization, **fields, actor=self.actor, at=self.at)
        return Response(self.get_serializer(policy).data, status=status.HTTP_201_CREATED)
