"""Check of secrets in webhook addresses: read at most every two seconds, whatever is asked."""

import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

import structlog
from django.db import Error, connections

from quotas.domain.admission.secrets import is_one_of
from quotas.selectors.admission.secrets import webhook_digests

logger = structlog.get_logger(__name__)

KEPT_NANOSECONDS: Final = 2_000_000_000


class KnownSecrets:
    """Hashes of the secrets in force; those read last stay while the database is away.

    Args:
        read: Returns hashes by cluster.
        clock: Monotonic clock, nanoseconds.
    """

    def __init__(
        self, read: Callable[[], Mapping[str, tuple[str, ...]]], clock: Callable[[], int]
    ) -> None:
        """Start without any."""
        self._read = read
        self._clock = clock
        self._digests: Mapping[str, tuple[str, ...]] = {}
        self._read_at: int | None = None
        self._reading = threading.Lock()

    @property
    def is_fresh(self) -> bool:
        """Whether those read last may be used without reading again."""
        return self._read_at is not None and self._clock() - self._read_at < KEPT_NANOSECONDS

    def may_ask(self, slug: str, secret: str) -> bool:
        """Whether a secret is one of a cluster's in force, by those read last."""
        return is_one_of(secret, self._digests.get(slug, ()))

    def renew(self) -> None:
        """Read, which may wait for the database.

        While another thread reads, those read last hold; before the first reading it is waited for.
        """
        if not self._reading.acquire(blocking=self._read_at is None):
            return
        try:
            if not self.is_fresh:
                self._read_once()
        finally:
            self._reading.release()

    def _read_once(self) -> None:
        try:
            self._digests = self._read()
        except Error as error:
            logger.warning("admission.secrets_unread", reason=type(error).__name__)
            connections.close_all()
        finally:
            # An unavailable database is not asked again for every request either.
            self._read_at = self._clock()


@lru_cache(maxsize=1)
def known_secrets() -> KnownSecrets:
    """Return those of this process."""
    return KnownSecrets(webhook_digests, time.monotonic_ns)
