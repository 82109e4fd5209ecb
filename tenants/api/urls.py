"""The REST routes of tenants under /api/v1/."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from tenants.api.audit import AuditEntryViewSet
from tenants.api.clusters import ClusterViewSet
from tenants.api.identity.invitations import InvitationViewSet
from tenants.api.identity.memberships import MembershipViewSet, MeView
from tenants.api.identity.sessions import session_urls
from tenants.api.identity.tokens import ApiTokenViewSet, ServiceAccountViewSet
from tenants.api.notifications import (
    NotificationDeliveryViewSet,
    NotificationEndpointViewSet,
    preference_urls,
)
from tenants.api.organizations import NamespaceBindingViewSet, OrganizationViewSet, ProjectViewSet

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

urlpatterns = [
    path("me/", MeView.as_view(), name="me"),
    *preference_urls,
    *session_urls,
    *router.urls,
]
