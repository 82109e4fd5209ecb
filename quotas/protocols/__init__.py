"""What quotas need from outside: somebody who makes a namespace's GPU quota true in a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class EnforcementEndpoint:
    """One cluster, as an enforcer needs to know it."""

    slug: str
    kubernetes_url: str
    credential_reference: str


@dataclass(frozen=True)
class DesiredQuota:
    """What a namespace's quota should say.

    Attributes:
        hard: ResourceQuota key, such as "requests.nvidia.com/gpu", to whole units. Every GPU
            resource the cluster offers stands here: a key left out would be unlimited.
        generation: Rises with every change; an enforcer never replaces a newer one.
    """

    namespace: str
    hard: Mapping[str, int]
    generation: int


@dataclass(frozen=True)
class LiveQuota:
    """What the cluster says: `hard` and `used` from the object's status, GPU keys only.

    Attributes:
        generation: The generation stamped on the object; 0 when it is not ours or not there.
    """

    namespace: str
    hard: Mapping[str, int]
    used: Mapping[str, int]
    generation: int


class QuotaConflictError(Exception):
    """Another manager owns the object's fields; it is reported, never forced.

    Attributes:
        managers: Names of the managers, in alphabetical order.
    """

    def __init__(self, message: str, *, managers: tuple[str, ...]) -> None:
        """Keep the sentence and who is in the way."""
        super().__init__(message)
        self.managers = managers


class StaleGenerationError(Exception):
    """The cluster already has a newer generation.

    Attributes:
        generation: The one the cluster has.
    """

    def __init__(self, message: str, *, generation: int) -> None:
        """Keep the sentence and the newer generation."""
        super().__init__(message)
        self.generation = generation


class QuotaEnforcer(Protocol):
    """Somebody who writes quotas. Implementations: Kubernetes, simulated."""

    def apply(self, endpoint: EnforcementEndpoint, desired: DesiredQuota) -> LiveQuota:
        """Make a namespace's quota say what is desired, and return what the cluster then says.

        The answer is read back from the object's status until it has caught up or a limit of
        tries is reached; the caller compares and calls it applied only when equal.

        Raises:
            QuotaConflictError: Another field manager owns a key.
            StaleGenerationError: The cluster has a newer generation.
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...

    def read(self, endpoint: EnforcementEndpoint, namespace: str) -> LiveQuota:
        """Return what the cluster says now.

        Raises:
            SourceUnavailableError: The cluster did not answer, or refused us.
        """
        ...
