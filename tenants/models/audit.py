"""What the service records of itself: audit, verifications, answers, clocks and crashes."""

from django.db import models


class AuditEntry(models.Model):
    """One thing done. `leaf` is set by the database at insert and proves the row's content.

    `occurred_at` is when the service says that it happened; `recorded_at` and `transaction_id` are
    the database's, whatever the statement gave. They are empty in entries from before they were.
    `organization_id` is kept as a plain value so that an entry outlives what it speaks of.
    """

    id = models.BigAutoField(primary_key=True)
    occurred_at = models.DateTimeField()
    actor_kind = models.CharField(max_length=16)
    actor_id = models.CharField(max_length=64)
    actor_label = models.CharField(max_length=200)
    action = models.CharField(max_length=64)
    """`<app>:<resource>:<verb>`, such as "billing:invoice:finalize"."""
    object_kind = models.CharField(max_length=64)
    object_id = models.CharField(max_length=64)
    organization_id = models.UUIDField(null=True, blank=True)
    facts = models.JSONField(default=dict)
    leaf = models.BinaryField(editable=False, default=b"")
    recorded_at = models.DateTimeField(null=True, editable=False)
    transaction_id = models.BigIntegerField(null=True, editable=False)
    """The transaction that wrote it: a change of people, roles or tokens has to have one."""

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["organization_id", "-id"], name="audit_by_organization"),
            models.Index(fields=["object_kind", "object_id", "-id"], name="audit_by_object"),
            models.Index(fields=["transaction_id"], name="audit_by_transaction"),
        ]

    def __str__(self) -> str:
        """Return the action and the actor."""
        return f"{self.action} by {self.actor_label}"


class Verification(models.Model):
    """One run of `manage.py verify`, or of a night.

    `audit_count` and `audit_digest` are of the audit entries that were settled when it began, in
    order of their ids; the next run must come to the same digest after as many. The database
    writes when a run began and ended, and refuses one that leaves out a check.
    """

    id = models.BigAutoField(primary_key=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    checks = models.JSONField(default=list)
    """The names of its checks, in their order."""
    is_nightly = models.BooleanField(default=False)
    """Whether any worker may go on with it; one of `manage.py verify` belongs to that process."""
    begun_by = models.CharField(max_length=63, blank=True, default="")
    """The database role; a run that is not nightly is continued by this role only."""
    accepted_entry_id = models.PositiveBigIntegerField(default=0)
    """Ends of runs in the audit trail up to this entry are not compared; set by the owner only."""
    check_name = models.CharField(max_length=64, blank=True, default="")
    """The check it is at."""
    cursor = models.JSONField(default=dict)
    """How far that check has come."""
    counts = models.JSONField(default=dict)
    """By check, how many rows it has read."""
    differences = models.JSONField(default=list)
    difference_count = models.PositiveIntegerField(default=0)
    audit_count = models.BigIntegerField(default=0)
    audit_digest = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        """Return when it began."""
        return f"verification of {self.started_at:%Y-%m-%d %H:%M} UTC"


class IdempotencyRecord(models.Model):
    """The first answer to one principal's one key; written in the transaction of its effect."""

    id = models.BigAutoField(primary_key=True)
    principal = models.CharField(max_length=96)
    key = models.CharField(max_length=255)
    fingerprint = models.BinaryField(max_length=32)
    """SHA-256 of method, path and canonical body, and of the token's scopes."""
    roles = models.JSONField()
    """What the principal held then, [role, organization, project] each; a replay holds it still."""
    status = models.PositiveSmallIntegerField()
    body = models.JSONField()
    headers = models.JSONField(default=dict)
    """Those that belong to the answer: ETag and Location."""
    created_at = models.DateTimeField()
    refused_at = models.DateTimeField(null=True)
    """When a replay was refused first; the audit trail has one entry of it."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["principal", "key"], name="idempotency_key_unique"),
        ]

    def __str__(self) -> str:
        """Return the key as its sender knows it."""
        return self.key


class ProcessClock(models.Model):
    """The clock of one process that is off; the row goes away once the clock is right again."""

    process = models.CharField(max_length=64, primary_key=True)
    """Host and process id."""
    offset_seconds = models.BigIntegerField()
    """How far it is ahead of the database's clock; negative when it is behind."""
    observed_at = models.DateTimeField()
    """When that was measured, by the database's clock."""

    class Meta:
        ordering = ["process"]

    def __str__(self) -> str:
        """Return the process and how far its clock is off."""
        return f"{self.process}: {self.offset_seconds} s"


class SweepCrash(models.Model):
    """How often items of one sweep ended in an unexpected error: one row for each event.

    The log has key and traceback of each crash; this row has their number, for a metric.
    """

    event = models.CharField(max_length=100, primary_key=True)
    """The log's name of it, such as "quotas.loans.crashed"."""
    count = models.BigIntegerField(default=1)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    last_key = models.CharField(max_length=200, blank=True, default="")
    """The item's key: an id, never a name."""
    last_error = models.CharField(max_length=200, blank=True, default="")
    """The class of the last error; its text may name tenants, and is in the log alone."""

    class Meta:
        ordering = ["event"]
        verbose_name_plural = "sweep crashes"

    def __str__(self) -> str:
        """Return what went wrong, and how often."""
        return f"{self.event}: {self.count}"
