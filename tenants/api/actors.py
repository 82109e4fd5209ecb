"""The actor of a request: a session, or `Authorization: Bearer gl_<prefix>_<secret>`."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from tenants.domain.actors import Actor, system_actor
from tenants.domain.identity.sign_in import client_network
from tenants.domain.refusals import UnauthenticatedError
from tenants.models import ApiToken
from tenants.selectors.actors import actor_of_token, actor_of_user, prove_token
from tenants.services.identity.sign_in import count_wrong_token
from tenants.services.identity.tokens import note_token_use

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


HEADER_PARTS = 2
GUESSING = system_actor("tenants.token_guess")


class ApiTokenAuthentication(BaseAuthentication):
    """Prove a request's caller by its API token; requests without one are left to others."""

    def authenticate(self, request: Request) -> tuple[User | ServicePrincipal, TokenProof] | None:
        """Return the holder and the proof, or None when no bearer token was sent.

        Raises:
            AuthenticationFailed: The token is malformed, unknown, revoked or expired, or its
                holder may not act.
            TooManyAttemptsError: So were too many others from this network.
        """
        parts = get_authorization_header(request).split()
        if not parts or parts[0].lower() != b"bearer":
            return None
        if len(parts) != HEADER_PARTS:
            raise AuthenticationFailed("The Authorization header is not `Bearer <token>`.")
        at = timezone.now()
        try:
            token = prove_token(parts[1].decode("ascii", errors="replace"))
            actor = actor_of_token(token, at=at)
        except UnauthenticatedError as error:
            network = client_network(request.META, trusted=settings.TRUSTED_PROXIES)
            count_wrong_token(network=network, actor=GUESSING, at=at)
            raise AuthenticationFailed(error.message) from error
        note_token_use(token=token, actor=actor, at=at)
        return _principal(token), TokenProof(token_id=token.pk, actor=actor)

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 - DRF's signature.
        """Return the challenge of a 401."""
        return 'Bearer realm="gpu-ledger"'


class ApiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI description describes API tokens."""

    target_class = "tenants.api.actors.ApiTokenAuthentication"
    name = "apiToken"

    def get_security_definition(self, auto_schema: object) -> dict[str, Any]:  # noqa: ARG002
        """Return the security scheme."""
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "gl_<prefix>_<secret>",
            "description": "An API token of a user or a service account.",
        }


def _principal(token: ApiToken) -> User | ServicePrincipal:
    if token.user is not None:
        return token.user
    if token.service_account is None:
        raise ValueError("a token has a holder")
    return ServicePrincipal(id=token.service_account.pk, username=token.service_account.slug)
