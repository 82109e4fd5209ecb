"""Who asks: a user and its groups, by bearer token.

Source: https://kubernetes.io/docs/reference/access-authn-authz/authentication/
"""

import hmac
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simulator.kubernetes_api.errors import JSON, unauthorized

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_SERVICE_ACCOUNTS: Final = "system:serviceaccounts"


@dataclass(frozen=True)
class User:
    """One caller.

    Attributes:
        uid: Of a ServiceAccount; "" for everybody else.
    """

    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)
    uid: str = ""

    @property
    def is_master(self) -> bool:
        """Whether everything is allowed."""
        return MASTERS in self.groups

    def printed(self) -> JSON:
        """Return the user as an AdmissionReview carries it."""
        return {
            "username": self.name,
            "groups": list(self.groups),
            **({"uid": self.uid} if self.uid else {}),
        }


ANONYMOUS: Final = User("system:anonymous", groups=("system:unauthenticated",))
ADMIN: Final = User("simulated-admin", groups=(MASTERS, AUTHENTICATED))


def service_account(namespace: str, name: str, uid: str) -> User:
    """Return the user that a ServiceAccount's tokens stand for."""
    groups = (_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups=groups, uid=uid)


class Directory:
    """Who stands behind a token.

    Args:
        tokens: Bearer token to the user it stands for; these may do everything.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        """Keep the tokens."""
        self._lock = threading.Lock()
        self._users = {
            token: User(name, groups=(MASTERS, AUTHENTICATED)) for token, name in tokens.items()
        }

    def issue(self, user: User) -> str:
        """Return a new token for a user."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._users[token] = user
        return token

    def user_of(self, authorization: str) -> User:
        """Return who asks.

        Raises:
            StatusError: 401 for a token that is unknown.
        """
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        with self._lock:
            known = list(self._users.items())
        for candidate, user in known:
            if scheme == "Bearer" and hmac.compare_digest(candidate.encode(), token.encode()):
                return user
        raise unauthorized()
