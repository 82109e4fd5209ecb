"""Changes to accounts that wait for a second person, and what became of them."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from tenants.domain.identifiers import new_id
from tenants.domain.identity.account_changes import ChangeKind, ChangeState


class AccountChange(models.Model):
    """One change to one person's account: asked for by one, decided by another.

    `value` is the role, the address or the user name; empty for the other kinds. `email` and
    `username` are the person's when it was asked for: links go there, and nothing is approved once
    either differs.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(
        max_length=16, choices=[(kind.value, kind.value.replace("_", " ")) for kind in ChangeKind]
    )
    subject = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="account_changes"
    )
    value = models.CharField(max_length=254, blank=True, default="")
    email = models.CharField(max_length=254, blank=True, default="")
    username = models.CharField(max_length=150)
    state = models.CharField(
        max_length=16,
        choices=[(state.value, state.value) for state in ChangeState],
        default=ChangeState.OPEN.value,
    )
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-asked_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["subject", "kind", "value"],
                condition=Q(state=ChangeState.OPEN.value),
                name="account_change_open_once",
            ),
            models.CheckConstraint(
                condition=Q(
                    state__in=[ChangeState.OPEN.value, ChangeState.EXPIRED.value],
                    decided_by__isnull=True,
                    decided_at__isnull=True,
                )
                | Q(
                    state__in=[ChangeState.APPROVED.value, ChangeState.DECLINED.value],
                    decided_by__isnull=False,
                    decided_at__isnull=False,
                ),
                name="account_change_decided_by_a_person",
            ),
            models.CheckConstraint(
                # The old address' owner approves an address; everything else takes another person.
                condition=~Q(state=ChangeState.APPROVED.value, decided_by=F("asked_by"))
                | Q(kind=ChangeKind.EMAIL.value),
                name="account_change_takes_two",
            ),
        ]

    def __str__(self) -> str:
        """Return the change and the account."""
        return f"{self.subject}: {self.kind} {self.value}".strip()
