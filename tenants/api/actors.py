"""The actor of a request, for the views of all apps."""

from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest
from rest_framework.request import Request

from tenants.domain.actors import Actor
from tenants.domain.refusals import UnauthenticatedError
from tenants.selectors.actors import actor_of_user

_CACHE = "_ledger_actor"


@dataclass(frozen=True)
class TokenProof:
    """What `request.auth` is when an API token proved the caller."""

    token_id: UUID
    actor: Actor


@dataclass(frozen=True)
class ServicePrincipal:
    """What `request.user` is when a service account calls: authenticated, and no Django user."""

    id: UUID
    username: str
    is_authenticated: bool = True
    is_anonymous: bool = False
    is_active: bool = True
    is_staff: bool = False

    @property
    def pk(self) -> UUID:
        """Return the service account's key, as throttles and logs ask for it."""
        return self.id

    def get_username(self) -> str:
        """Return the account's slug."""
        return self.username


def actor_of_request(request: Request | HttpRequest) -> Actor:
    """Return the caller with every role held now; fetched once per request.

    Raises:
        UnauthenticatedError: The request has no valid sign-in, or the user is deactivated.
    """
    proof = getattr(request, "auth", None)
    if isinstance(proof, TokenProof):
        return proof.actor
    plain = request._request if isinstance(request, Request) else request  # noqa: SLF001 - DRF's own.
    known: Actor | None = getattr(plain, _CACHE, None)
    if known is None:
        user = request.user
        if not user.is_authenticated:
            raise UnauthenticatedError("Nobody is signed in.")
        known = actor_of_user(user)
        setattr(plain, _CACHE, known)
    return known
