"""/api/v1/headroom/ and /api/v1/quota-forecasts/: may so many units start now, and until when."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import READ_CAPACITY
from metering.domain.catalogue.units import GPUSize
from metering.selectors.allocations.offers import ClusterHeadroom
from quotas.access import READ_LIMIT, access_person, hidden_scopes, limits_visible_to
from quotas.api.fields import SizeField
from quotas.domain.enforcement.caps import stale_text
from quotas.domain.headroom.start import LimitHeadroom, start_text, visible_free_units
from quotas.domain.limits.input import LIMIT_UNITS_MAX, refuse_problems
from quotas.models import LimitScope, QuotaLimit
from quotas.models.limit import SIZE_CHOICES
from quotas.selectors.headroom.forecast import LimitForecast, forecasts_of
from quotas.selectors.headroom.headroom import (
    StartAnswer,
    StartQuestion,
    answer_start,
    clusters_of_project,
)
from quotas.selectors.headroom.start_times import StartTime
from quotas.selectors.limits.limits import unknown_group_problems
from tenants.access import access_project, is_platform_wide
from tenants.api.filters import StrictFilterSet
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet
from tenants.domain.actors import Actor
from tenants.domain.errors import FieldProblem


class QuotaForecastSerializer(serializers.Serializer[LimitForecast]):
    """What the trend says of one limit."""

    limit = serializers.UUIDField(source="limit.limit_id")
    organization = serializers.UUIDField(source="limit.organization_id")
    project = serializers.UUIDField(source="limit.project_id")
    size = serializers.CharField(source="limit.size.value")
    limit_units = serializers.IntegerField(source="limit.nominal_units")
    outcome = serializers.CharField(source="exhaustion.outcome.value")
    expected_on = serializers.DateField(source="exhaustion.on", allow_null=True)
    weekly_units = serializers.SerializerMethodField()

    def get_weekly_units(self, forecast: LimitForecast) -> str | None:
        """Return how the daily peak grows in a week, to a hundredth of a unit."""
        weekly = forecast.exhaustion.weekly_units
        if weekly is None:
            return None
        return str((Decimal(weekly.numerator) / weekly.denominator).quantize(Decimal("0.01")))


class QuotaForecastFilter(StrictFilterSet):
    """Which limits are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    size = filters.ChoiceFilter(choices=SIZE_CHOICES)


class QuotaForecastViewSet(LedgerViewSet):
    """Forecasts of the projects' limits for every model and cluster."""

    serializer_class = QuotaForecastSerializer
    filterset_class = QuotaForecastFilter
    ordering = ("organization_id", "pk")

    def get_queryset(self) -> QuerySet[QuotaLimit]:
        """Return the limits that have a forecast and that the caller may read."""
        return limits_visible_to(self.actor).filter(
            scope=LimitScope.PROJECT, model_group="", cluster=None, limit_units__isnull=False
        )

    @extend_schema(responses=QuotaForecastSerializer(many=True))
    def list(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature.
        """List forecasts, by organization."""
        page: list[Any] = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        forecasts = forecasts_of(page, at=self.at)
        return self.get_paginated_response(self.get_serializer(forecasts, many=True).data)


NAME_LENGTH_MAX: Final = 150
LIMIT_FIGURES: Final = (
    "id",
    "limit_units",
    "used_units",
    "reserved_units",
    "free_units",
    "is_allowance_used",
)
CAPACITY_FIGURES: Final = ("offered_units", "held_units", "free_units")


class HeadroomQuestionSerializer(StrictSerializer):
    """What would start."""

    project = serializers.UUIDField()
    size = SizeField()
    units = serializers.IntegerField(min_value=1, max_value=LIMIT_UNITS_MAX)
    user = serializers.CharField(max_length=NAME_LENGTH_MAX, required=False, default="")
    model_group = serializers.CharField(max_length=32, required=False, default="")
    cluster = serializers.CharField(max_length=63, required=False, default="")
    burst = serializers.BooleanField(required=False, default=False)


@dataclass(frozen=True)
class Visibility:
    """Which figures the caller may read; whether and when it fits is always shown.

    Attributes:
        hidden_scopes: Those of limits that the caller may not read.
        is_capacity_visible: Whether the caller may read what clusters offer to all tenants.
    """

    hidden_scopes: frozenset[str]
    is_capacity_visible: bool


def visibility_of(actor: Actor, question: StartQuestion) -> Visibility:
    """Return what an actor may read beside the project: its organization's limits, and capacity."""
    project = question.project
    hidden = hidden_scopes(actor, organization_id=project.organization_id, project_id=project.pk)
    return Visibility(hidden, is_platform_wide(actor, READ_CAPACITY))


class LimitHeadroomSerializer(serializers.Serializer[LimitHeadroom]):
    """One limit that binds, and what it leaves.

    Where `is_visible` is false the caller may not read the limit: its scope and holder are named,
    and `id` and every figure are null.
    """

    id = serializers.UUIDField(source="limit_id", allow_null=True)
    scope = serializers.CharField()
    holder = serializers.CharField()
    model_group = serializers.CharField()
    cluster = serializers.CharField()
    is_visible = serializers.SerializerMethodField()
    limit_units = serializers.IntegerField(
        allow_null=True, help_text="In force; null is unlimited, or not shown."
    )
    used_units = serializers.IntegerField(allow_null=True)
    reserved_units = serializers.IntegerField(allow_null=True)
    free_units = serializers.IntegerField(
        allow_null=True, help_text="Null when unlimited, or not shown."
    )
    is_allowance_used = serializers.BooleanField(allow_null=True)

    def get_is_visible(self, limit: LimitHeadroom) -> bool:
        """Return whether the caller may read its figures."""
        return limit.scope not in _visibility(self).hidden_scopes

    def to_representation(self, instance: LimitHeadroom) -> dict[str, Any]:
        """Return it as far as the caller may read it."""
        shown = super().to_representation(instance)
        return shown if shown["is_visible"] else {**shown, **dict.fromkeys(LIMIT_FIGURES)}


class StartTimeSerializer(serializers.Serializer[StartTime]):
    """When it would fit, as likely earlier as later (p50), and nine times in ten (p90)."""

    p50 = serializers.DateTimeField(source="median_at")
    p90 = serializers.DateTimeField(source="sure_at", allow_null=True)
    basis = serializers.CharField()
    pods_without_estimate = serializers.IntegerField(
        allow_null=True,
        help_text="Of the whole organization; null to those who may not read its limits.",
    )

    def to_representation(self, instance: StartTime) -> dict[str, Any]:
        """Return it without the organization's pods where its figures are hidden."""
        shown = super().to_representation(instance)
        hidden = {"pods_without_estimate": None} if _visibility(self).hidden_scopes else {}
        return {**shown, **hidden}


class ClusterHeadroomSerializer(serializers.Serializer[ClusterHeadroom]):
    """What the nodes of a cluster have left of the size, for all tenants together.

    The figures are null to those who may not read capacity; `warning` says when it is full.
    """

    cluster = serializers.CharField(source="slug")
    observed_at = serializers.DateTimeField(source="seen_at", allow_null=True)
    offered_units = serializers.IntegerField(allow_null=True)
    held_units = serializers.IntegerField(allow_null=True)
    free_units = serializers.IntegerField(allow_null=True)

    def to_representation(self, instance: ClusterHeadroom) -> dict[str, Any]:
        """Return it as far as the caller may read capacity."""
        shown = super().to_representation(instance)
        is_visible = _visibility(self).is_capacity_visible
        return shown if is_visible else {**shown, **dict.fromkeys(CAPACITY_FIGURES)}


class HeadroomSerializer(serializers.Serializer[StartAnswer]):
    """The answer, with every limit's headroom as far as the caller may read it."""

    fits = serializers.BooleanField(source="verdict.fits")
    code = serializers.CharField(source="verdict.code.value")
    message = serializers.SerializerMethodField()
    free_units = serializers.SerializerMethodField(
        help_text="Null when nothing bounds them, or a limit does that the caller may not read."
    )
    cluster = serializers.CharField()
    blocked_by = LimitHeadroomSerializer(source="verdict.blocker", allow_null=True)
    limits = LimitHeadroomSerializer(many=True)
    expected_start = StartTimeSerializer(source="when", allow_null=True)
    clusters = ClusterHeadroomSerializer(many=True)
    warning = serializers.SerializerMethodField()

    def get_message(self, answer: StartAnswer) -> str:
        """Return the answer as a sentence."""
        asked = self.context["question"]
        hidden = _visibility(self).hidden_scopes
        words = start_text(
            answer.verdict, size=asked.size.value, units=asked.units, hidden_scopes=hidden
        )
        return f"{words} {stale_text(answer.unread, cluster=answer.cluster)}".rstrip()

    def get_free_units(self, answer: StartAnswer) -> int | None:
        """Return the most that fit, as far as the caller may know it."""
        hidden = _visibility(self).hidden_scopes
        return visible_free_units(answer.verdict, answer.limits, hidden_scopes=hidden)

    def get_warning(self, answer: StartAnswer) -> str | None:
        """Return a warning beside an answer that it fits; None without one.

        "cluster_full" where quota allows it but no cluster has free capacity;
        "cluster_quota_unclear" where quota is left only under a resource name that may be of
        several sizes; and "cluster_quota_stale" where a quota in the cluster was not read lately.
        """
        free = [cluster.free_units for cluster in answer.clusters]
        known = [units for units in free if units is not None]
        is_full = bool(known) and len(known) == len(free)
        asked = self.context["question"].units
        if answer.verdict.fits and is_full and max(known) < asked:
            return "cluster_full"
        if answer.is_uncertain:
            return "cluster_quota_unclear"
        return "cluster_quota_stale" if answer.verdict.fits and answer.unread else None


def _visibility(serializer: serializers.BaseSerializer[Any]) -> Visibility:
    """Return what the caller may read."""
    visibility: Visibility = serializer.context["visibility"]
    return visibility


class HeadroomViewSet(LedgerViewSet):
    """Whether something may start. Nothing is reserved by asking."""

    serializer_class = HeadroomSerializer

    @extend_schema(parameters=[HeadroomQuestionSerializer], responses=HeadroomSerializer)
    def ask(self, request: Request) -> Response:
        """Return whether so many units may start now, and if not, when; no cache keeps the answer.

        A caller who may read the project's limits is shown whether and when, and the figures of the
        limits they may read. A limit above their rights is named, without its figures.
        """
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
        context = {"question": question, "visibility": visibility_of(self.actor, question)}
        body = HeadroomSerializer(answer, context=context).data
        return Response(body, headers={"Cache-Control": "no-store"})

    def _question(self, asked: dict[str, Any]) -> StartQuestion:
        project = access_project(self.actor, asked["project"], READ_LIMIT)
        refuse_problems(unknown_group_problems(asked["model_group"]))
        if asked["user"]:
            access_person(project.organization, asked["user"])
        return StartQuestion(
            project=project,
            size=GPUSize(asked["size"]),
            units=asked["units"],
            username=asked["user"],
            model_group=asked["model_group"],
            cluster=asked["cluster"],
            is_burst=asked["burst"],
        )
