"""Notifications: events, endpoints that subscribe to them, and deliveries."""

from django.db import models
from django.db.models import Q

from tenants.domain.identifiers import new_id
from tenants.domain.notifications import EndpointKind, masked_address
from tenants.models.organization import LifecycleState, Organization

KIND_CHOICES = [(kind.value, kind.value.capitalize()) for kind in EndpointKind]


class NotificationEndpoint(models.Model):
    """A mail address or a webhook that receives events of an organization, or of all.

    `secret_reference` names a variable; the secret that signs a webhook is never stored here.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization,
        on_delete=models.PROTECT,
        related_name="notification_endpoints",
        null=True,
        blank=True,
    )
    """None receives events of every organization, and of the platform."""
    kind = models.CharField(max_length=16, choices=KIND_CHOICES)
    address = models.CharField(max_length=500)
    events = models.JSONField(default=list)
    """Patterns such as "quotas:request:*"; see tenants/domain/notifications.py."""
    secret_reference = models.CharField(max_length=200, blank=True, default="")
    state = models.CharField(
        max_length=16, choices=LifecycleState.choices, default=LifecycleState.ACTIVE
    )
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "address"],
                condition=Q(state=LifecycleState.ACTIVE),
                name="notification_endpoint_once",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        """Return where it is, without tokens."""
        return self.shown_address

    @property
    def shown_address(self) -> str:
        """Return the address as it may be read: of a webhook without its tokens."""
        return masked_address(self.kind, self.address)


class Notification(models.Model):
    """An event that is reported, written in the transaction of the change.

    Its id is the event's id: a receiver recognises a repeated delivery by it.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    event = models.CharField(max_length=100)
    organization = models.ForeignKey(
        Organization,
        on_delete=models.PROTECT,
        related_name="notifications",
        null=True,
        blank=True,
    )
    subject = models.CharField(max_length=200)
    text = models.TextField()
    facts = models.JSONField(default=dict)
    key = models.CharField(max_length=200, unique=True, null=True, blank=True)
    """Key of an event that is reported once only, such as a reminder; None without a limit."""
    occurred_at = models.DateTimeField()

    class Meta:
        ordering = ["-occurred_at", "id"]
        indexes = [models.Index(fields=["occurred_at"], name="notification_occurred")]

    def __str__(self) -> str:
        """Return what it says."""
        return self.subject


class DeliveryState(models.TextChoices):
    """State of one delivery."""

    PENDING = "pending"
    SENT = "sent"
    SKIPPED = "skipped"
    """This installation has no way to send its kind, or its endpoint was closed."""
    GIVEN_UP = "given_up"


class NotificationDelivery(models.Model):
    """One notification on its way to one address."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    notification = models.ForeignKey(
        Notification, on_delete=models.PROTECT, related_name="deliveries"
    )
    endpoint = models.ForeignKey(
        NotificationEndpoint,
        on_delete=models.PROTECT,
        related_name="deliveries",
        null=True,
        blank=True,
    )
    """None for a person, who is mailed at the address of the account."""
    kind = models.CharField(max_length=16, choices=KIND_CHOICES)
    address = models.CharField(max_length=500)
    state = models.CharField(
        max_length=16, choices=DeliveryState.choices, default=DeliveryState.PENDING
    )
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField()
    """When it is tried next; during an attempt, when its lease ends."""
    sent_at = models.DateTimeField(null=True, blank=True)
    last_error = models.CharField(max_length=200, blank=True, default="")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at", "id"]
        verbose_name_plural = "notification deliveries"
        constraints = [
            models.UniqueConstraint(
                fields=["notification", "kind", "address"], name="notification_delivery_once"
            ),
            models.CheckConstraint(
                condition=~Q(state=DeliveryState.SENT) | Q(sent_at__isnull=False),
                name="notification_delivery_sent_has_a_time",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_at"],
                condition=Q(state="pending"),
                name="notification_delivery_due",
            ),
        ]

    def __str__(self) -> str:
        """Return what goes where."""
        return f"{self.notification} -> {self.shown_address}"

    @property
    def shown_address(self) -> str:
        """Return where it goes as it may be read: of a webhook without its tokens."""
        return masked_address(self.kind, self.address)
