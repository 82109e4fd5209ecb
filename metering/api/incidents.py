"""/api/v1/incidents/: exceptions of one cause about one thing, settled together."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.access import WRITE_EXCEPTION, access_incident, exceptions_visible_to
from metering.adapters import held_costs
from metering.api.exceptions import KIND_CHOICES, NOTE_LENGTH_MAX, SIDE_CHOICES
from metering.domain.collection.reconciliation import Side
from metering.domain.collection.windows import MeteringPolicy
from metering.domain.corrections.exceptions import remedy_of
from metering.models import ExceptionState, MeteringException
from metering.protocols.held_costs import HeldTotal, total_of
from metering.selectors.corrections.incidents import (
    BindingEffect,
    Incident,
    binding_effect,
    exceptions_of_incidents,
    first_unbound,
    incidents_of,
    one_of_each_incident,
)
from metering.services.corrections.incidents import RefusedException, settle_incident
from tenants.access import READ_PROJECT, access_project
from tenants.api.filters import StrictFilterSet
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet
from tenants.models import Project


@dataclass(frozen=True)
class PricedIncident:
    """An incident, and what it would cost."""

    incident: Incident
    total: HeldTotal

    @property
    def remedy(self) -> str:
        """What a person can do about it."""
        return remedy_of(self.incident.kind, cause=self.incident.cause)

    @property
    def costs(self) -> list[dict[str, str]]:
        """What is held would cost, by currency."""
        return _amounts(self.total)


class HeldMoneySerializer(serializers.Serializer[Any]):
    """An amount in one currency."""

    amount = serializers.CharField()
    currency = serializers.CharField()


class HeldPartSerializer(serializers.Serializer[Any]):
    """What is held of one size."""

    size = serializers.CharField(help_text="Empty while no rule gives one.")
    unit_seconds = serializers.IntegerField()


class IncidentSerializer(serializers.Serializer[PricedIncident]):
    """Exceptions of one cause about one thing, among those that the filters leave."""

    id = serializers.UUIDField(source="incident.id")
    cluster = serializers.UUIDField(source="incident.cluster_id")
    kind = serializers.ChoiceField(choices=KIND_CHOICES, source="incident.kind")
    cause = serializers.CharField(source="incident.cause")
    namespace = serializers.CharField(source="incident.namespace")
    resource = serializers.CharField(source="incident.resource")
    node = serializers.CharField(source="incident.node")
    exceptions = serializers.IntegerField(source="incident.exceptions")
    hours = serializers.IntegerField(source="incident.hours")
    pods = serializers.IntegerField(source="incident.pods")
    first_start = serializers.DateTimeField(source="incident.first_start")
    last_start = serializers.DateTimeField(source="incident.last_start")
    is_blocking = serializers.BooleanField(
        source="incident.is_blocking", help_text="Whether it keeps its hours from being sealed."
    )
    held = HeldPartSerializer(many=True, source="incident.held")
    held_unit_seconds = serializers.IntegerField(source="incident.held_unit_seconds")
    held_costs = HeldMoneySerializer(
        many=True,
        source="costs",
        help_text="An estimate at the price of each part's last hour; of use that belongs to no "
        "project yet, at the default price book.",
    )
    is_cost_whole = serializers.BooleanField(
        source="total.is_whole", help_text="False while some of what is held has no known price."
    )
    remedy = serializers.CharField()


class SettlementSerializer(StrictSerializer):
    """Why every open exception of an incident is settled, and how."""

    note = serializers.CharField(max_length=NOTE_LENGTH_MAX)
    side = serializers.ChoiceField(
        choices=SIDE_CHOICES,
        required=False,
        help_text="Whose evidence is accepted and billed; without it what is held stays unbilled.",
    )


class RefusedExceptionSerializer(serializers.Serializer[RefusedException]):
    """An exception that stays open, and why."""

    exception = serializers.IntegerField(source="exception_id")
    window_start = serializers.DateTimeField()
    code = serializers.CharField(source="refusal.code")
    detail = serializers.CharField(source="refusal.message")
    remedy = serializers.CharField(source="refusal.advice")


class SettledIncidentSerializer(serializers.Serializer[Any]):
    """What was settled, and what was not; the call may be repeated for the rest."""

    settled = serializers.IntegerField()
    refused = RefusedExceptionSerializer(many=True)
    left = serializers.IntegerField(help_text="Not tried: one call settles at most 1,000.")


class BindingPreviewInputSerializer(StrictSerializer):
    """The project that the namespace of an incident would be bound to."""

    project = serializers.UUIDField()


class BindingPreviewSerializer(serializers.Serializer[Any]):
    """What binding the namespace from the first open hour on would bill, and when."""

    cluster = serializers.UUIDField()
    namespace = serializers.CharField()
    organization = serializers.UUIDField()
    project = serializers.UUIDField()
    valid_from = serializers.DateTimeField(help_text="The first open hour.")
    valid_until = serializers.DateTimeField(
        allow_null=True, help_text="When the namespace's next binding begins; null without one."
    )
    held = HeldPartSerializer(many=True)
    costs = HeldMoneySerializer(
        many=True, help_text="An estimate at the prices of the organization, by currency."
    )
    is_cost_whole = serializers.BooleanField(
        help_text="False while some of the use has no known price."
    )
    sealed_hours = serializers.IntegerField(
        help_text="Metered again within about ten minutes, and billed by a correction."
    )
    unsealed_hours = serializers.IntegerField(help_text="Billed once they are sealed.")
    late_hours = serializers.IntegerField(
        help_text="Too old for a recheck: they stay unbilled, and open until they are resolved."
    )
    bills = serializers.ListField(
        child=serializers.CharField(), help_text="Months of the bills, such as November 2026."
    )


class IncidentFilter(StrictFilterSet):
    """Which exceptions count; incidents without any are left out."""

    cluster = filters.UUIDFilter(field_name="cluster_id")
    kind = filters.ChoiceFilter(choices=KIND_CHOICES)
    namespace = filters.CharFilter()
    is_open = filters.BooleanFilter(method="filter_open")
    since = filters.IsoDateTimeFilter(field_name="window_start", lookup_expr="gte")

    def filter_open(
        self,
        rows: QuerySet[MeteringException],
        name: str,  # noqa: ARG002 - As django-filter calls it.
        value: bool,  # noqa: FBT001 - As above.
    ) -> QuerySet[MeteringException]:
        """Return the open exceptions, or the resolved ones."""
        return rows.filter(state=ExceptionState.OPEN if value else ExceptionState.RESOLVED)


class IncidentViewSet(LedgerViewSet):
    """Incidents, those that began last first."""

    serializer_class = IncidentSerializer
    filterset_class = IncidentFilter

    def get_queryset(self) -> QuerySet[MeteringException]:
        """Return the exceptions the caller sees."""
        return exceptions_visible_to(self.actor)

    def list(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature.
        """List incidents: exceptions of one cause about one thing, with what they hold."""
        rows = self.filter_queryset(self.get_queryset())
        page = self.paginate_queryset(one_of_each_incident(rows)) or []
        found = incidents_of(exceptions_of_incidents(rows, [row.incident for row in page]))
        by_id = {incident.id: incident for incident in found}
        ordered = [by_id[row.incident] for row in page]
        return self.get_paginated_response(self.get_serializer(_priced(ordered), many=True).data)

    def retrieve(self, request: Request, pk: UUID) -> Response:  # noqa: ARG002 - As above.
        """Return one incident, with all its exceptions, resolved ones too."""
        found = incidents_of(access_incident(self.actor, pk))
        return Response(self.get_serializer(_priced(found)[0]).data)

    @extend_schema(request=SettlementSerializer, responses={200: SettledIncidentSerializer})
    @action(detail=True, methods=["post"])
    def resolve(self, request: Request, pk: UUID) -> Response:
        """Settle every open exception of an incident, each by itself; a refusal stops no other."""
        exceptions = access_incident(self.actor, pk, WRITE_EXCEPTION)
        asked = self.read(SettlementSerializer, request)
        settled = settle_incident(
            exceptions=exceptions,
            note=asked["note"],
            side=Side(asked["side"]) if "side" in asked else None,
            actor=self.actor,
            at=self.at,
            policy=MeteringPolicy(recheck_retention_seconds=settings.RECHECK_RETENTION_SECONDS),
        )
        return Response(SettledIncidentSerializer(settled).data)

    @extend_schema(request=BindingPreviewInputSerializer, responses={200: BindingPreviewSerializer})
    @action(detail=True, methods=["post"], url_path="preview-binding")
    def preview_binding(self, request: Request, pk: UUID) -> Response:
        """Show the bill that binding the namespace to a project would make; nothing changes.

        To bind it, send `cluster`, `namespace`, `project`, `valid_from` and `valid_until` of the
        answer to `POST namespace-bindings/`.
        """
        exceptions = access_incident(self.actor, pk)
        asked = self.read(BindingPreviewInputSerializer, request)
        project = access_project(self.actor, asked["project"], READ_PROJECT)
        found = first_unbound(exceptions)
        oldest_at = self.at - timedelta(seconds=settings.RECHECK_RETENTION_SECONDS)
        effect = binding_effect(found, project=project, oldest_at=oldest_at)
        return Response(BindingPreviewSerializer(_previewed(found, effect, project)).data)


def _previewed(found: MeteringException, effect: BindingEffect, project: Project) -> dict[str, Any]:
    costs = held_costs(settings.HELD_COSTS)
    total = total_of(costs.costs_of(effect.uses))
    held: dict[str, int] = {}
    for use in effect.uses:
        held[use.size] = held.get(use.size, 0) + use.unit_seconds
    return {
        "cluster": found.cluster_id,
        "namespace": found.namespace,
        "organization": project.organization_id,
        "project": project.pk,
        "valid_from": found.window_start,
        "valid_until": effect.end_at,
        "held": [{"size": size, "unit_seconds": seconds} for size, seconds in held.items()],
        "costs": _amounts(total),
        "is_cost_whole": total.is_whole,
        "sealed_hours": effect.sealed_hours,
        "unsealed_hours": effect.unsealed_hours,
        "late_hours": effect.late_hours,
        "bills": []
        if effect.first_start is None or effect.last_start is None
        else [
            f"{month:%B %Y}"
            for month in costs.bills_of(
                project.organization_id,
                first_start=effect.first_start,
                last_start=effect.last_start,
            )
        ],
    }


def _amounts(total: HeldTotal) -> list[dict[str, str]]:
    return [
        {"amount": str(amount), "currency": currency} for currency, amount in total.amounts.items()
    ]


def _priced(incidents: Iterable[Incident]) -> list[PricedIncident]:
    """Return incidents with what they would cost; one statement for all."""
    found = list(incidents)
    uses = [use for incident in found for use in incident.uses]
    costs = iter(held_costs(settings.HELD_COSTS).costs_of(uses))
    return [
        PricedIncident(incident, total_of([next(costs) for _ in incident.uses]))
        for incident in found
    ]
