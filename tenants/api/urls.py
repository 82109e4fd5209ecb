"""The REST routes of tenants under /api/v1/."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from tenants.api.api_tokens import ApiTokenViewSet
from tenants.api.audit_entries import AuditEntryViewSet
from tenants.api.clusters import ClusterViewSet
from tenants.api.invitations import InvitationViewSet
from tenants.api.me import MeView
from tenants.api.memberships import MembershipViewSet
from tenants.api.namespace_bindings import NamespaceBindingViewSet
from tenants.api.notification_endpoints import (
    NotificationDeliveryViewSet,
    NotificationEndpointViewSet,
)
from tenants.api.organizations import OrganizationViewSet
from tenants.api.projects import ProjectViewSet
from tenants.api.service_accounts import ServiceAccountViewSet
from tenants.api.sessions import session_urls

router = SimpleRouter(use_regex_path=False)
router.register("organizations", OrganizationViewSet, basename="organization")
router.register("projects", ProjectViewSet, basename="project")
router.register("memberships", MembershipViewSet, basename="membership")
router.register("invitations", InvitationViewSet, basename="invitation")
router.register("clusters", ClusterViewSet, basename="cluster")
router.register("namespace-bindings", NamespaceBindingViewSet, basename="namespace-binding")
router.register("service-accounts", ServiceAccountViewSet, basename="service-account")
router.register(
    "notification-endpoints", NotificationEndpointViewSet, basename="notification-endpoint"
)
router.register(
    "notification-deliveries", NotificationDeliveryViewSet, basename="notification-delivery"
)
router.register("api-tokens", ApiTokenViewSet, basename="api-token")
router.register("audit-entries", AuditEntryViewSet, basename="audit-entry")

urlpatterns = [path("me/", MeView.as_view(), name="me"), *session_urls, *router.urls]
