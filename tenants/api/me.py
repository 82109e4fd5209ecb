"""/api/v1/me/: who the caller is, and what it may do."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from tenants.api.actors import actor_of_request
from tenants.domain.actors import ActorKind, Grant
from tenants.domain.roles import CAPABILITIES
from tenants.models.membership import ROLE_CHOICES


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

    @extend_schema(operation_id="me_retrieve", responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """Return who calls, with roles and capabilities."""
        actor = actor_of_request(request)
        return Response(MeSerializer(actor, context={"scopes": actor.scopes}).data)
