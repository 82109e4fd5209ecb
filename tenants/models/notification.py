"""Notifications: events, endpoints that subscribe to them, and deliveries."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from tenants.domain.identifiers import new_id
from tenants.domain.notifications import EndpointKind, masked_address
from tenants.models.organization import Language, LifecycleState, Organization

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
    translations = models.JSONField(default=dict, db_default={})
    """By language, subject and text as lists of two; without one, everybody reads the English."""
    facts = models.JSONField(default=dict)
    document_id = models.UUIDField(null=True, blank=True)
    """Of billing: its file is attached to mails, and never posted to webhooks."""
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
    language = models.CharField(
        max_length=2, choices=Language.choices, blank=True, default="", db_default=""
    )
    """Of a mail, where the notification has it; "" for English."""
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


class NotificationPreference(models.Model):
    """What one person is not mailed about, and in which language the rest is."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="notification_preference",
    )
    muted_events = models.JSONField(default=list, blank=True)
    """Names of events; roles decide which of the others are mailed."""
    language = models.CharField(
        max_length=2, choices=Language.choices, blank=True, default="", db_default=""
    )
    """"" for that of what is reported: of a document, its own."""
    version = models.PositiveIntegerField(default=1)
    changed_at = models.DateTimeField()

    class Meta:
        ordering = ["user"]

    def __str__(self) -> str:
        """Return the person's name."""
        return self.user.get_username()
