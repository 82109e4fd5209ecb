"""/api/v1/api-tokens/ and /api/v1/service-accounts/. A token's text is shown once."""

from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from tenants.access import (
    READ_MEMBERSHIP,
    WRITE_TOKEN,
    access_api_token,
    access_organization,
    access_service_account,
    api_tokens_visible_to,
    service_accounts_visible_to,
)
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import EmptySerializer, StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.domain.refusals import TokenNotYoursToIssueError
from tenants.models import ApiToken, ServiceAccount
from tenants.models.organization import LifecycleState
from tenants.services.identity.tokens import (
    close_service_account,
    create_service_account,
    issue_token,
    revoke_token,
)

SCOPES_MAX = 100


class ApiTokenSerializer(serializers.ModelSerializer[ApiToken]):
    """A token as it may be looked at: its prefix, never its secret."""

    user = serializers.CharField(
        source="user.username", default=None, read_only=True, allow_null=True
    )
    service_account = serializers.UUIDField(
        source="service_account_id", read_only=True, allow_null=True
    )

    class Meta:
        model = ApiToken
        fields = (
            "id",
            "name",
            "prefix",
            "user",
            "service_account",
            "scopes",
            "created_at",
            "expires_at",
            "revoked_at",
            "last_used_at",
        )
        read_only_fields = fields


class IssuedTokenSerializer(ApiTokenSerializer):
    """A new token with its text, which is never shown again."""

    token = serializers.CharField(read_only=True)

    class Meta(ApiTokenSerializer.Meta):
        fields = (*ApiTokenSerializer.Meta.fields, "token")  # type: ignore[assignment]
        read_only_fields = fields  # type: ignore[assignment]


class ApiTokenInputSerializer(StrictSerializer):
    """A token to issue: to oneself, or to a service account one administers."""

    name = serializers.CharField(max_length=200)
    expires_at = serializers.DateTimeField(
        help_text="At most 365 days ahead, and no later than the end of the token that issues it."
    )
    scopes = serializers.ListField(
        child=serializers.CharField(max_length=64), required=False, max_length=SCOPES_MAX
    )
    service_account = serializers.UUIDField(required=False)


class ApiTokenFilter(StrictFilterSet):
    """Which tokens are listed."""

    service_account = filters.UUIDFilter(field_name="service_account_id")
    prefix = filters.CharFilter()
    is_revoked = filters.BooleanFilter(
        field_name="revoked_at", lookup_expr="isnull", exclude=True, label="Whether it was revoked."
    )


class ApiTokenViewSet(ReadingViewSet):
    """API tokens."""

    serializer_class = ApiTokenSerializer
    filterset_class = ApiTokenFilter

    def get_queryset(self) -> QuerySet[ApiToken]:
        """Return the caller's own tokens, and those of accounts it administers."""
        return api_tokens_visible_to(self.actor)

    def get_one(self, pk: UUID) -> ApiToken:
        """Return one token."""
        return access_api_token(self.actor, pk)

    @extend_schema(
        request=ApiTokenInputSerializer, responses={status.HTTP_201_CREATED: IssuedTokenSerializer}
    )
    def create(self, request: Request) -> Response:
        """Issue a token. Keep its text: it is not stored, and cannot be shown again."""
        fields = self.read(ApiTokenInputSerializer, request)
        issued = issue_token(
            name=fields["name"],
            expires_at=fields["expires_at"],
            scopes=fields.get("scopes", ()),
            **self._holder(fields, request),
            actor=self.actor,
            at=self.at,
        )
        shown = {**ApiTokenSerializer(issued.token).data, "token": issued.text}
        return Response(
            shown,
            status=status.HTTP_201_CREATED,
            headers={"Location": f"{request.path}{issued.token.pk}/"},
        )

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: UUID) -> Response:
        """Revoke a token for ever, at once."""
        token = access_api_token(self.actor, pk)
        self.read(EmptySerializer, request)
        return self.answer(revoke_token(token=token, actor=self.actor, at=self.at))

    def _holder(self, fields: dict[str, Any], request: Request) -> dict[str, Any]:
        if "service_account" in fields:
            account = access_service_account(self.actor, fields["service_account"], WRITE_TOKEN)
            return {"service_account": account}
        if not isinstance(request.user, User):
            raise TokenNotYoursToIssueError(
                "A service account issues no token for a person.", field="service_account"
            )
        return {"user": request.user}


class ServiceAccountSerializer(serializers.ModelSerializer[ServiceAccount]):
    """A service account."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)

    class Meta:
        model = ServiceAccount
        fields = ("id", "organization", "slug", "name", "state", "created_at")
        read_only_fields = fields


class ServiceAccountInputSerializer(StrictSerializer):
    """A new service account."""

    organization = serializers.UUIDField()
    slug = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=200)


class ServiceAccountFilter(StrictFilterSet):
    """Which service accounts are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    slug = filters.CharFilter()
    state = filters.ChoiceFilter(choices=LifecycleState.choices)


class ServiceAccountViewSet(ReadingViewSet):
    """Service accounts."""

    serializer_class = ServiceAccountSerializer
    filterset_class = ServiceAccountFilter
    ordering = "slug"

    def get_queryset(self) -> QuerySet[ServiceAccount]:
        """Return the accounts of the organizations the caller reaches."""
        return service_accounts_visible_to(self.actor)

    def get_one(self, pk: UUID) -> ServiceAccount:
        """Return one service account."""
        return access_service_account(self.actor, pk, READ_MEMBERSHIP)

    @extend_schema(request=ServiceAccountInputSerializer)
    @idempotent(is_required=False)
    def create(self, request: Request) -> Response:
        """Make a service account; it has no role and no token yet."""
        fields = self.read(ServiceAccountInputSerializer, request)
        organization = access_organization(self.actor, fields.pop("organization"), WRITE_TOKEN)
        made = create_service_account(
            organization=organization, **fields, actor=self.actor, at=self.at
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=EmptySerializer)
    @action(detail=True, methods=["post"])
    def close(self, request: Request, pk: UUID) -> Response:
        """Close a service account and revoke its tokens."""
        account = access_service_account(self.actor, pk, WRITE_TOKEN)
        self.read(EmptySerializer, request)
        return self.answer(close_service_account(account=account, actor=self.actor, at=self.at))
