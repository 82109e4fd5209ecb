"""/api/v1/invitations/: roles offered to mail addresses, alike whether they have an account."""

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.urls import reverse
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.access import (
    access_invitation,
    access_organization,
    access_project,
    invitations_visible_to,
    require_capability,
)
from tenants.adapters.mail import (
    is_mail_set_up,
    one_line,
    public_link,
    send_link,
    shown_end,
)
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.domain.identity.roles import Role
from tenants.models import Invitation
from tenants.models.identity import ROLE_CHOICES
from tenants.services.identity.invitations import IssuedInvitation, invite, withdraw_invitation

WRITE = "tenants:membership:write"


class InvitationSerializer(serializers.ModelSerializer[Invitation]):
    """An offer and what became of it; its link is in a mail only."""

    organization = serializers.UUIDField(source="organization_id", read_only=True, allow_null=True)
    project = serializers.UUIDField(source="project_id", read_only=True, allow_null=True)
    invited_by = serializers.CharField(source="invited_by.username", read_only=True)

    class Meta:
        model = Invitation
        fields = (
            "id",
            "email",
            "role",
            "organization",
            "project",
            "invited_by",
            "created_at",
            "expires_at",
            "accepted_at",
            "withdrawn_at",
        )
        read_only_fields = fields


class InvitationInputSerializer(StrictSerializer):
    """A role to offer, at the scope the role takes."""

    email = serializers.CharField(max_length=254)
    role = serializers.ChoiceField(choices=ROLE_CHOICES)
    organization = serializers.UUIDField(required=False)
    project = serializers.UUIDField(required=False)


class InvitationFilter(StrictFilterSet):
    """Which invitations are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    project = filters.UUIDFilter(field_name="project_id")
    is_accepted = filters.BooleanFilter(
        field_name="accepted_at", lookup_expr="isnull", exclude=True, label="Whether accepted."
    )


class InvitationViewSet(ReadingViewSet):
    """Invitations."""

    serializer_class = InvitationSerializer
    filterset_class = InvitationFilter

    def get_queryset(self) -> QuerySet[Invitation]:
        """Return the invitations within the caller's reach."""
        return invitations_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Invitation:
        """Return one invitation."""
        return access_invitation(self.actor, pk, "tenants:membership:read")

    @extend_schema(request=InvitationInputSerializer)
    @idempotent(is_required=False)
    def create(self, request: Request) -> Response:
        """Offer a role to a mail address; a link goes there, valid once, for seven days."""
        fields = self.read(InvitationInputSerializer, request)
        issued = invite(
            email=fields["email"],
            role=Role(fields["role"]),
            **self._scope(fields),
            is_mail_set_up=is_mail_set_up(),
            actor=self.actor,
            at=self.at,
        )
        _send(issued)
        return self.answer(issued.invitation, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, pk: UUID) -> Response:
        """Take an offer back; its link ends."""
        invitation = access_invitation(self.actor, pk, WRITE)
        self.read(EmptySerializer, request)
        return self.answer(withdraw_invitation(invitation=invitation, actor=self.actor, at=self.at))

    def _scope(self, fields: dict[str, Any]) -> dict[str, Any]:
        if not {"organization", "project"} & set(fields):
            require_capability(self.actor, WRITE)
        scope: dict[str, Any] = {}
        if "organization" in fields:
            scope["organization"] = access_organization(self.actor, fields["organization"], WRITE)
        if "project" in fields:
            scope["project"] = access_project(self.actor, fields["project"], WRITE)
        return scope


def _send(issued: IssuedInvitation) -> None:
    """Send the link, once this is committed."""
    invitation, inviter = issued.invitation, issued.invitation.invited_by
    role = invitation.role.replace("_", " ")
    transaction.on_commit(
        lambda: send_link(
            address=invitation.email,
            subject="You are invited",
            text=f"{inviter.get_username()} ({inviter.email}) invites you to be {role} of "
            f"{_scope_label(invitation)}. Accept it with this link. "
            f"{shown_end(invitation.expires_at)}\n\nWithout an account for this address you "
            "choose a user name first, and get another mail to set a password.",
            link=public_link(reverse("invitation", args=(issued.secret,))),
            unexpected="do nothing: without the link no role is given.",
        )
    )


def _scope_label(invitation: Invitation) -> str:
    project = invitation.project
    if project is None:
        return f"the organization {one_line(invitation.organization)}"
    return f"the project {one_line(project)} of {one_line(project.organization)}"
