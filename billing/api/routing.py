"""Endpoints /api/v1/issuers/, recipients/ and project-routes/: parties of documents."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    WRITE_PRICE,
    access_issuer,
    access_payer,
    access_recipient,
    access_recipient_to_write,
    access_route,
    issuers_visible_to,
    recipients_visible_to,
    routes_visible_to,
)
from billing.adapters.terms import invoice_terms
from billing.models import Issuer, ProjectRoute, Recipient
from billing.services.routing import (
    change_issuer,
    change_recipient,
    create_issuer,
    create_recipient,
    set_route,
)
from tenants.access import access_project, require_capability
from tenants.api.conditional import if_match
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet
from tenants.models.organization import Language


class IssuerSerializer(serializers.ModelSerializer[Issuer]):
    """A legal entity that bills, beside the one in the settings."""

    class Meta:
        model = Issuer
        fields = (
            "id",
            "slug",
            "name",
            "address",
            "tax_id",
            "bank_account",
            "country",
            "series",
            "credit_series",
            "first_number",
            "created_at",
            "version",
        )
        read_only_fields = fields


class IssuerChangeSerializer(StrictSerializer):
    """What documents print of an issuer."""

    name = serializers.CharField(max_length=200)
    address = serializers.CharField(max_length=1000, default="", allow_blank=True)
    tax_id = serializers.CharField(max_length=64, default="", allow_blank=True)
    bank_account = serializers.CharField(max_length=64, default="", allow_blank=True)
    country = serializers.CharField(max_length=2, default="", allow_blank=True)


class IssuerInputSerializer(IssuerChangeSerializer):
    """A further issuer; slug, prefixes and first number are set once."""

    slug = serializers.CharField(max_length=63)
    series = serializers.CharField(max_length=12, help_text="Prefix of invoices' numbers.")
    credit_series = serializers.CharField(max_length=12, help_text="Prefix of credit notes'.")
    first_number = serializers.IntegerField(min_value=1, max_value=900_000, default=1)


class IssuerViewSet(ReadingViewSet):
    """Issuers beside the one in the settings."""

    serializer_class = IssuerSerializer

    def get_queryset(self) -> QuerySet[Issuer]:
        """Return the issuers, which only the platform sees."""
        return issuers_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Issuer:
        """Return one issuer."""
        return access_issuer(self.actor, pk)

    @extend_schema(request=IssuerInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Add an issuer, whose numbers are series of its own."""
        fields = self.read(IssuerInputSerializer, request)
        require_capability(self.actor, WRITE_PRICE)
        made = create_issuer(fields=fields, actor=self.actor, at=self.at, terms=invoice_terms())
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=IssuerChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change what further documents print of an issuer."""
        issuer = access_issuer(self.actor, pk)
        require_capability(self.actor, WRITE_PRICE)
        changes = self.read_changes(IssuerChangeSerializer, request)
        return self.change(request, change_issuer, issuer=issuer, changes=changes)


class RecipientSerializer(serializers.ModelSerializer[Recipient]):
    """A party that an organization has billed instead of itself."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)

    class Meta:
        model = Recipient
        fields = (
            "id",
            "organization",
            "slug",
            "name",
            "address",
            "tax_id",
            "buyer_reference",
            "contact",
            "email",
            "cost_center",
            "country",
            "language",
            "tax_country",
            "tax_category",
            "created_at",
            "version",
        )
        read_only_fields = fields


class RecipientChangeSerializer(StrictSerializer):
    """What documents print of a recipient, and how it is taxed."""

    name = serializers.CharField(max_length=200)
    address = serializers.CharField(max_length=1000, default="", allow_blank=True)
    tax_id = serializers.CharField(max_length=64, default="", allow_blank=True)
    buyer_reference = serializers.CharField(max_length=100, default="", allow_blank=True)
    contact = serializers.CharField(max_length=200, default="", allow_blank=True)
    email = serializers.EmailField(default="", allow_blank=True)
    cost_center = serializers.CharField(max_length=64, default="", allow_blank=True)
    country = serializers.CharField(max_length=2, default="", allow_blank=True)
    language = serializers.ChoiceField(
        choices=Language.choices,
        default="",
        allow_blank=True,
        help_text='"" for as the organization is.',
    )
    tax_country = serializers.CharField(
        max_length=2, default="", allow_blank=True, help_text='"" for as the organization is.'
    )
    tax_category = serializers.CharField(max_length=2, default="", allow_blank=True)


class RecipientInputSerializer(RecipientChangeSerializer):
    """A recipient of an organization."""

    organization = serializers.UUIDField()
    slug = serializers.CharField(max_length=63)


class OwnedFilter(StrictFilterSet):
    """Which recipients or routes are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")


class RecipientViewSet(ReadingViewSet):
    """Recipients of organizations' documents."""

    serializer_class = RecipientSerializer
    filterset_class = OwnedFilter

    def get_queryset(self) -> QuerySet[Recipient]:
        """Return the recipients of the organizations whose prices the caller reads."""
        return recipients_visible_to(self.actor)

    def get_one(self, pk: UUID) -> Recipient:
        """Return one recipient."""
        return access_recipient(self.actor, pk)

    @extend_schema(request=RecipientInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Add a recipient of an organization."""
        fields = self.read(RecipientInputSerializer, request)
        payer = access_payer(self.actor, fields.pop("organization"), WRITE_PRICE)
        made = create_recipient(organization=payer, fields=fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=RecipientChangeSerializer)
    @if_match
    def partial_update(self, request: Request, pk: UUID) -> Response:
        """Change what further documents print of a recipient, or how it is taxed."""
        recipient = access_recipient_to_write(self.actor, pk)
        changes = self.read_changes(RecipientChangeSerializer, request)
        return self.change(request, change_recipient, recipient=recipient, changes=changes)


class ProjectRouteSerializer(serializers.ModelSerializer[ProjectRoute]):
    """Where the lines of a project go; null is the site's issuer, or the organization itself."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    project = serializers.UUIDField(source="project_id", read_only=True)
    issuer = serializers.UUIDField(source="issuer_id", read_only=True, allow_null=True)
    recipient = serializers.UUIDField(source="recipient_id", read_only=True, allow_null=True)

    class Meta:
        model = ProjectRoute
        fields = (
            "id",
            "organization",
            "project",
            "issuer",
            "recipient",
            "purchase_order",
            "created_at",
            "version",
        )
        read_only_fields = fields


class ProjectRouteInputSerializer(StrictSerializer):
    """The route of a project from the next run on."""

    project = serializers.UUIDField()
    issuer = serializers.UUIDField(default=None, allow_null=True)
    recipient = serializers.UUIDField(default=None, allow_null=True)
    purchase_order = serializers.CharField(max_length=64, default="", allow_blank=True)


class ProjectRouteViewSet(ReadingViewSet):
    """Routes of projects; a project without one has the default."""

    serializer_class = ProjectRouteSerializer
    filterset_class = OwnedFilter

    def get_queryset(self) -> QuerySet[ProjectRoute]:
        """Return the routes in the organizations whose prices the caller reads."""
        return routes_visible_to(self.actor)

    def get_one(self, pk: UUID) -> ProjectRoute:
        """Return one route."""
        return access_route(self.actor, pk)

    @extend_schema(request=ProjectRouteInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Set the route of a project, in place of the one it has."""
        fields = self.read(ProjectRouteInputSerializer, request)
        project = access_project(self.actor, fields["project"], WRITE_PRICE)
        issuer, recipient = fields["issuer"], fields["recipient"]
        made = set_route(
            project=project,
            issuer=issuer and access_issuer(self.actor, issuer),
            recipient=recipient and access_recipient(self.actor, recipient),
            purchase_order=fields["purchase_order"],
            actor=self.actor,
            at=self.at,
        )
        return self.answer(made, status_code=status.HTTP_201_CREATED)
