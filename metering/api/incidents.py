"""/api/v1/incidents/: exceptions of one cause about one thing, settled together."""

from collections.abc import Iterable
from dataclasses import dataclass
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
    Incident,
    exceptions_of_incidents,
    incidents_of,
    one_of_each_incident,
)
from metering.services.corrections.incidents import RefusedException, settle_incident
from tenants.api.filters import StrictFilterSet
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet


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
        return [
            {"amount": str(amount), "currency": currency}
            for currency, amount in self.total.amounts.items()
        ]


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


def _priced(incidents: Iterable[Incident]) -> list[PricedIncident]:
    """Return incidents with what they would cost; one statement for all."""
    found = list(incidents)
    uses = [use for incident in found for use in incident.uses]
    costs = iter(held_costs(settings.HELD_COSTS).costs_of(uses))
    return [
        PricedIncident(incident, total_of([next(costs) for _ in incident.uses]))
        for incident in found
    ]
