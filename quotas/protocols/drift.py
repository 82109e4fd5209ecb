"""Protocol of quota watches: our quotas in a cluster as one list, and every change after it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from quotas.protocols import EnforcementEndpoint, LiveQuota

ObjectKey = tuple[str, str]
"""Namespace and name of an object."""


@dataclass(frozen=True)
class QuotaList:
    """Our quotas at one version.

    Attributes:
        version: Where a watch continues.
        quotas: By namespace, without those of others.
        states: By object: its values as text, without what pods use.
    """

    version: str
    quotas: Mapping[str, LiveQuota]
    states: Mapping[ObjectKey, str]


@dataclass(frozen=True)
class QuotaEvent:
    """One change of an object of ours.

    Attributes:
        version: Where a watch continues after it.
        key: The object; None for a bookmark.
        state: See `QuotaList.states`; "" for an object that was deleted.
    """

    version: str
    key: ObjectKey | None = None
    state: str = ""


class QuotaVersionExpiredError(Exception):
    """Raised when the server no longer knows a version (410): list again."""


class QuotaWatchSource(Protocol):
    """Watches our quotas. Implementations: Kubernetes, simulated. Safe to share between threads."""

    def list_quotas(self, endpoint: EnforcementEndpoint) -> QuotaList:
        """Return our quotas in a cluster.

        Raises:
            QuotaVersionExpiredError: The list took too long to read.
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...

    def watch_quotas(
        self, endpoint: EnforcementEndpoint, *, version: str, timeout_seconds: int
    ) -> Iterator[QuotaEvent]:
        """Yield every change after a version until the server ends the stream.

        Raises:
            QuotaVersionExpiredError: The version is too old.
            SourceUnavailableError: The stream broke, or the cluster refused us.
        """
        ...
