"""/api/v1/memberships/ and /api/v1/me/: roles and their scopes."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.access import (
    access_membership,
    access_organization,
    access_person,
    access_project,
    access_service_account,
    memberships_visible_to,
    require_capability,
)
from tenants.api.actors import actor_of_request
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.domain.actors import ActorKind, Grant
from tenants.domain.identity.roles import CAPABILITIES, Role
from tenants.models import Membership
from tenants.models.identity import ROLE_CHOICES
from tenants.services.identity.memberships import grant_role, revoke_role


class GrantSerializer(serializers.Serializer[Grant]):
    """One role and how far it reaches; a platform role has neither id."""

    role = serializers.ChoiceField(choices=ROLE_CHOICES)
    organization = serializers.UUIDField(source="organization_id", allow_null=True)
    project = serializers.UUIDField(source="project_id", allow_null=True)
    capabilities = serializers.SerializerMethodField()

    def get_capabilities(self, grant: Grant) -> list[str]:
        """Return what the role may do through these credentials, alphabetically."""
        held = CAPABILITIES[grant.role]
        scopes = self.context["scopes"]
        return sorted(held if scopes is None else held & scopes)


class MeSerializer(serializers.Serializer[Any]):
    """The caller."""

    kind = serializers.ChoiceField(choices=[(kind.value, kind.value) for kind in ActorKind])
    id = serializers.CharField()
    name = serializers.CharField(source="label")
    scopes = serializers.SerializerMethodField()
    grants = GrantSerializer(many=True)

    def get_scopes(self, actor: Any) -> list[str] | None:  # noqa: ANN401 - An Actor.
        """Return what a token limits the caller to; null when it does not."""
        return None if actor.scopes is None else sorted(actor.scopes)


class MeView(APIView):
    """The caller, as these credentials make it."""

    @extend_schema(operation_id="get_me", responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """Return the caller, with roles and capabilities."""
        actor = actor_of_request(request)
        return Response(MeSerializer(actor, context={"scopes": actor.scopes}).data)


WRITE = "tenants:membership:write"


class MembershipSerializer(serializers.ModelSerializer[Membership]):
    """One role of one holder."""

    user = serializers.CharField(source="user.username", read_only=True, allow_null=True)
    service_account = serializers.UUIDField(
        source="service_account_id", read_only=True, allow_null=True
    )
    organization = serializers.UUIDField(source="organization_id", read_only=True, allow_null=True)
    project = serializers.UUIDField(source="project_id", read_only=True, allow_null=True)

    class Meta:
        model = Membership
        fields = (
            "id",
            "role",
            "user",
            "service_account",
            "organization",
            "project",
            "created_at",
        )
        read_only_fields = fields

    def to_representation(self, instance: Membership) -> dict[str, Any]:
        """Return the role; a service account has no user name."""
        return {"user": None, **super().to_representation(instance)}


class MembershipInputSerializer(StrictSerializer):
    """A role to give: to a user or a service account, at the scope the role takes."""

    role = serializers.ChoiceField(choices=ROLE_CHOICES)
    user = serializers.CharField(
        max_length=150,
        required=False,
        help_text="A user name within the organization; others are invited by mail address.",
    )
    service_account = serializers.UUIDField(required=False)
    organization = serializers.UUIDField(required=False)
    project = serializers.UUIDField(required=False)


class MembershipFilter(StrictFilterSet):
    """Which memberships are listed."""

    role = filters.ChoiceFilter(choices=ROLE_CHOICES)
    user = filters.CharFilter(field_name="user__username")
    service_account = filters.UUIDFilter(field_name="service_account_id")
    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")


class MembershipViewSet(ReadingViewSet):
    """Memberships."""

    serializer_class = MembershipSerializer
    filterset_class = MembershipFilter

    def get_queryset(self) -> QuerySet[Membership]:
        """Return the memberships within the caller's reach, and its own."""
        return memberships_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Membership:
        """Return one membership."""
        return access_membership(self.actor, pk)

    @extend_schema(request=MembershipInputSerializer)
    @idempotent(is_required=False)
    def create(self, request: Request) -> Response:
        """Give a role."""
        fields = self.read(MembershipInputSerializer, request)
        scope = self._scope(fields)
        made = grant_role(
            role=Role(fields["role"]),
            **scope,
            **self._holder(fields, scope),
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=None, responses={status.HTTP_204_NO_CONTENT: None})
    def destroy(self, request: Request, pk: UUID) -> Response:  # noqa: ARG002 - DRF's signature.
        """Take a role away."""
        membership = access_membership(self.actor, pk)
        revoke_role(membership=membership, actor=self.actor, at=self.at)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _scope(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return where the role shall reach; settled before anybody's name is looked up."""
        if not {"organization", "project"} & set(fields):
            require_capability(self.actor, WRITE)
        scope: dict[str, Any] = {}
        if "organization" in fields:
            scope["organization"] = access_organization(self.actor, fields["organization"], WRITE)
        if "project" in fields:
            scope["project"] = access_project(self.actor, fields["project"], WRITE)
        return scope

    def _holder(self, fields: dict[str, Any], scope: dict[str, Any]) -> dict[str, Any]:
        holder: dict[str, Any] = {}
        if "user" in fields:
            holder["user"] = access_person(
                self.actor, fields["user"], organization_id=_organization_of(scope)
            )
        if "service_account" in fields:
            holder["service_account"] = access_service_account(
                self.actor, fields["service_account"], "tenants:membership:read"
            )
        return holder


def _organization_of(scope: dict[str, Any]) -> UUID | None:
    if "project" in scope:
        return UUID(str(scope["project"].organization_id))
    return scope["organization"].pk if "organization" in scope else None
