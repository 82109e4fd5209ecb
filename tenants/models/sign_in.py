"""Sessions, and what limits guesses and mails: counts of attempts, and known networks.

Account names and addresses stand here as keyed digests: people type passwords where a name is
asked for.
"""

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models


class PersonSession(AbstractBaseSession):
    """One browser's session; nothing is kept of it beside what Django keeps.

    The key is what proves the browser and is never shown. `public_id` names the session to its
    person; a session that changes its key has two rows for a moment.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sessions", null=True
    )
    public_id = models.UUIDField(null=True, db_index=True)

    def __str__(self) -> str:
        """Return which it is: never the key."""
        return str(self.public_id)

    @classmethod
    def get_session_store_class(cls) -> type[SessionBase]:
        """Return what decodes a row."""
        return SessionStore


DIGEST_BYTES = 32


class AttemptKind(models.TextChoices):
    """What a count of attempts is kept for."""

    ACCOUNT = "account", "An account, from networks it is not known from"
    NETWORK = "network", "A network, for accounts not known from it"
    DEVICE = "device", "An account in a browser that it has signed in with"
    PAIR = "pair", "An account from one network it is known from"
    TOKEN = "token", "API tokens from a network"
    LINK = "link", "Links to set a password that a network asks for"
    LINK_TO = "link_to", "Links to set a password for an address"
    FORGED = "forged", "Links that were never sent, from a network"
    INVITER = "inviter", "Invitations by an account"
    INVITED = "invited", "Invitations to an address"


class AttemptCount(models.Model):
    """Attempts of one key in one span of ten minutes, by the database's clock."""

    kind = models.CharField(max_length=8, choices=AttemptKind)
    key = models.BinaryField(max_length=DIGEST_BYTES)
    since = models.DateTimeField()
    attempts = models.IntegerField(default=1)
    """Those that failed or were refused; one that succeeds is taken off again."""
    subject = models.CharField(max_length=64)
    """The account's id or the network, for the audit trail; "" for an unknown account."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "key", "since"], name="attempt_count_unique"),
        ]
        indexes = [models.Index(fields=["since"], name="attempt_count_since")]

    def __str__(self) -> str:
        """Return what was counted, and how often."""
        return f"{self.kind}: {self.attempts}"


class KnownNetwork(models.Model):
    """A network from which an account signed in with the right password."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    network = models.BinaryField(max_length=DIGEST_BYTES)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "network"], name="known_network_unique"),
        ]
        indexes = [models.Index(fields=["seen_at"], name="known_network_seen")]

    def __str__(self) -> str:
        """Return when it was seen last."""
        return f"seen {self.seen_at}"


class PasswordLinkRequest(models.Model):
    """An address whose accounts are to get a link to set a password; deleted once a worker has it.

    The page writes one for every address: which have an account is looked up by the worker. One
    with a person is written when all that the person signed in with has ended.
    """

    email = models.EmailField()
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", null=True
    )
    left_address = models.EmailField(blank=True, default="")
    """The address that the person's account had until now; "" when it is the same."""
    requested_at = models.DateTimeField()

    def __str__(self) -> str:
        """Return when it was asked for."""
        return f"asked for at {self.requested_at}"
