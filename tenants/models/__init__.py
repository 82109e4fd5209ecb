"""Tables of tenants and their constraints."""

from tenants.models.archive import ArchivedMonth
from tenants.models.audit import (
    AuditEntry,
    IdempotencyRecord,
    ProcessClock,
    SweepCrash,
    Verification,
)
from tenants.models.cluster import (
    AdmissionMode,
    Cluster,
    FailurePolicy,
    NamespaceBinding,
    QuotaTarget,
    SecretHost,
)
from tenants.models.identity import AccountChange, ApiToken, Invitation, Membership, ServiceAccount
from tenants.models.notification import (
    DeliveryState,
    Notification,
    NotificationDelivery,
    NotificationEndpoint,
    NotificationPreference,
)
from tenants.models.organization import Organization, Project
from tenants.models.sign_in import AttemptCount, KnownNetwork, PasswordLinkRequest, PersonSession

__all__ = [
    "AccountChange",
    "AdmissionMode",
    "ApiToken",
    "ArchivedMonth",
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
    "NotificationPreference",
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
