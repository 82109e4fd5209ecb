"""Endpoints /api/v1/customer-classes/ and customer-class-memberships/."""

from uuid import UUID

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import (
    WRITE_PRICE,
    access_class_membership,
    access_class_membership_to_write,
    access_customer_class,
    access_payer,
    class_memberships_visible_to,
    customer_classes_visible_to,
)
from billing.api.pricing.price_books import (
    PublishedFilter,
    RepairSerializer,
    WithdrawalSerializer,
)
from billing.models import CustomerClass, CustomerClassMembership
from billing.services.pricing.customer_classes import create_customer_class, set_customer_class
from billing.services.pricing.price_history import withdraw_membership
from tenants.access import require_capability
from tenants.api.filters import StrictFilterSet
from tenants.api.idempotency import idempotent
from tenants.api.serializers import StrictSerializer
from tenants.api.views import ReadingViewSet


class CustomerClassSerializer(serializers.ModelSerializer[CustomerClass]):
    """A kind of customers, whose organizations are billed by the book of the class."""

    class Meta:
        model = CustomerClass
        fields = ("id", "slug", "name", "created_at")
        read_only_fields = fields


class CustomerClassInputSerializer(StrictSerializer):
    """A new customer class."""

    slug = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=200)


class CustomerClassFilter(StrictFilterSet):
    """Which customer classes are listed."""

    slug = filters.CharFilter()


class CustomerClassViewSet(ReadingViewSet):
    """Customer classes."""

    serializer_class = CustomerClassSerializer
    filterset_class = CustomerClassFilter
    ordering = "slug"

    def get_queryset(self) -> QuerySet[CustomerClass]:
        """Return all classes, or those the caller's organizations are in."""
        return customer_classes_visible_to(self.actor)

    def get_one(self, pk: UUID) -> CustomerClass:
        """Return one class."""
        return access_customer_class(self.actor, pk)

    @extend_schema(request=CustomerClassInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Make a customer class."""
        fields = self.read(CustomerClassInputSerializer, request)
        require_capability(self.actor, WRITE_PRICE)
        made = create_customer_class(**fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)


class ClassMembershipSerializer(serializers.ModelSerializer[CustomerClassMembership]):
    """Which class an organization is in for [valid_from, valid_until)."""

    organization = serializers.UUIDField(source="organization_id", read_only=True)
    customer_class = serializers.UUIDField(
        source="customer_class_id", read_only=True, allow_null=True, help_text="Null for none."
    )
    valid_from = serializers.DateTimeField(source="valid.lower", read_only=True)
    valid_until = serializers.DateTimeField(source="valid.upper", read_only=True, allow_null=True)
    replaces = serializers.UUIDField(source="replaces_id", read_only=True, allow_null=True)

    class Meta:
        model = CustomerClassMembership
        fields = (
            "id",
            "organization",
            "customer_class",
            "valid_from",
            "valid_until",
            "published_at",
            "superseded_at",
            "replaces",
        )
        read_only_fields = fields


class ClassMembershipInputSerializer(RepairSerializer):
    """The class of an organization from an hour on."""

    organization = serializers.UUIDField()
    customer_class = serializers.UUIDField(allow_null=True, help_text="Null for none any more.")
    valid_from = serializers.DateTimeField(help_text="The start of a UTC hour.")


class ClassMembershipFilter(PublishedFilter):
    """Which memberships are listed."""

    organization = filters.UUIDFilter(field_name="organization_id")
    customer_class = filters.UUIDFilter(field_name="customer_class_id")


class ClassMembershipViewSet(ReadingViewSet):
    """Which organization is in which class."""

    serializer_class = ClassMembershipSerializer
    filterset_class = ClassMembershipFilter

    def get_queryset(self) -> QuerySet[CustomerClassMembership]:
        """Return the memberships of the organizations whose prices the caller reads."""
        return class_memberships_visible_to(self.actor)

    def get_one(self, pk: UUID) -> CustomerClassMembership:
        """Return one membership."""
        return access_class_membership(self.actor, pk)

    @extend_schema(request=ClassMembershipInputSerializer)
    @idempotent()
    def create(self, request: Request) -> Response:
        """Put an organization into a class from an hour on."""
        fields = self.read(ClassMembershipInputSerializer, request)
        fields["organization"] = access_payer(self.actor, fields["organization"], WRITE_PRICE)
        if fields["customer_class"] is not None:
            fields["customer_class"] = access_customer_class(self.actor, fields["customer_class"])
        made = set_customer_class(**fields, actor=self.actor, at=self.at)
        return self.answer(made, status_code=status.HTTP_201_CREATED)

    @extend_schema(request=WithdrawalSerializer)
    @action(detail=True, methods=["post"])
    @idempotent()
    def withdraw(self, request: Request, pk: UUID) -> Response:
        """Withdraw a membership that is not in force yet; the one before it goes on."""
        reason = self.read(WithdrawalSerializer, request)["reason"]
        found = access_class_membership_to_write(self.actor, pk)
        done = withdraw_membership(
            membership_id=found.pk, reason=reason, actor=self.actor, at=self.at
        )
        return self.answer(done)
