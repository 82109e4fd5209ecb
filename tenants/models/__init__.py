"""Tables of tenants and their constraints."""

from tenants.models.account_change import AccountChange
from tenants.models.api_token import ApiToken, ServiceAccount
from tenants.models.audit import AuditEntry
from tenants.models.cluster import AdmissionMode, Cluster, FailurePolicy, QuotaTarget, SecretHost
from tenants.models.idempotency import IdempotencyRecord
from tenants.models.invitation import Invitation
from tenants.models.membership import Membership
from tenants.models.namespace import NamespaceBinding
from tenants.models.notification import (
    DeliveryState,
    Notification,
    NotificationDelivery,
    NotificationEndpoint,
)
from tenants.models.organization import Organization
from tenants.models.process import ProcessClock, SweepCrash
from tenants.models.project import Project
from tenants.models.sign_in import AttemptCount, KnownNetwork, PasswordLinkRequest, PersonSession
from tenants.models.verification import Verification

__all__ = [
    "AccountChange",
    "AdmissionMode",
    "ApiToken",
    "AttemptCount",
    "AuditEntry",
    "Cluster",
    "DeliveryState",
    "FailurePolicy",
    "IdempotencyRecord",
    "Invitation",
    "KnownNetwork",
    "Membership",
    "NamespaceBinding",
    "Notification",
    "NotificationDelivery",
    "NotificationEndpoint",
    "Organization",
    "PasswordLinkRequest",
    "PersonSession",
    "ProcessClock",
    "Project",
    "QuotaTarget",
    "SecretHost",
    "ServiceAccount",
    "SweepCrash",
    "Verification",
]
