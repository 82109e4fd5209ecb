"""Tokens of service accounts: when one ends, and how it gets its successor before that.

An account asks its own API server for the next token (TokenRequest), so that no token has to last
for long. Source: Kubernetes API reference, authentication.k8s.io/v1 TokenRequest.
"""

import base64
import json
import os
import re
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import urllib3

from tenants.adapters.cluster_secrets import SecretForbiddenError, read_secret, secret_path
from tenants.adapters.kubernetes_credentials import FILE, configuration_of, guarded_rest
from tenants.domain.errors import SourceUnavailableError

LIFETIME_SECONDS: Final = 86_400
ANSWER_BYTES_MAX: Final = 64 * 1024
TIMEOUT: Final = urllib3.Timeout(connect=5, read=10)
_SUBJECT: Final = re.compile(r"system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)")


@dataclass(frozen=True)
class TokenLife:
    """A token's validity period and its subject."""

    begin_at: datetime
    end_at: datetime
    namespace: str
    account: str

    def is_half_over(self, at: datetime) -> bool:
        """Whether at least half of its time has passed."""
        return at >= self.begin_at + (self.end_at - self.begin_at) / 2


def life_of(token: str) -> TokenLife | None:
    """Return the claims of a token; None if it is not a service account's.

    It is our own credential: its server checks the signature, nothing is decided by it here.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        subject = _SUBJECT.fullmatch(claims["sub"])
        begin, end = (datetime.fromtimestamp(int(claims[name]), UTC) for name in ("iat", "exp"))
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return None if subject is None else TokenLife(begin, end, subject[1], subject[2])


def token_path(reference: str) -> Path | None:
    """Return the file of a reference, whatever way it is written; None for what is no such file."""
    if not reference.startswith(FILE):
        return None
    try:
        return secret_path(reference.removeprefix(FILE))
    except (SecretForbiddenError, OSError, ValueError):
        return None


def renew_token(
    *, slug: str, url: str, reference: str, at: datetime
) -> tuple[datetime, bool] | None:
    """Return when a cluster's token ends, and whether it was renewed just now; None for no token.

    Args:
        slug: Our name of the cluster.
        url: Its API.
        reference: `file:<path>`; of other kinds nothing is renewed.
        at: When, UTC.

    Raises:
        SourceUnavailableError: Half of its time is over and there is no successor.
    """
    if not reference.startswith(FILE):
        return None
    try:
        path = secret_path(reference.removeprefix(FILE))
        token = read_secret(path).decode().strip()
    except SecretForbiddenError as error:
        raise SourceUnavailableError(
            f"The credentials of cluster {slug} are not used: {error}",
            reason="credentials_forbidden",
        ) from error
    except (OSError, ValueError) as error:
        raise SourceUnavailableError(
            f"The token of cluster {slug} cannot be read.", reason="credentials_missing"
        ) from error
    life = life_of(token)
    if life is None:
        return None
    if not life.is_half_over(at):
        return life.end_at, False
    following = _request(slug=slug, url=url, reference=reference, life=life)
    renewed = life_of(following)
    if renewed is None or (renewed.namespace, renewed.account) != (life.namespace, life.account):
        raise SourceUnavailableError(
            f"Cluster {slug} answered with a token of another account.", reason="bad_answer"
        )
    _replace(path, following, slug=slug)
    return renewed.end_at, True


def _request(*, slug: str, url: str, reference: str, life: TokenLife) -> str:
    configuration = configuration_of(slug=slug, url=url, reference=reference)
    pools = guarded_rest(configuration).pool_manager
    path = f"/api/v1/namespaces/{life.namespace}/serviceaccounts/{life.account}/token"
    asked: dict[str, Any] = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": LIFETIME_SECONDS},
    }
    try:
        answer = pools.request(
            "POST",
            f"{configuration.host}{path}",
            body=json.dumps(asked).encode(),
            headers={
                "Authorization": configuration.get_api_key_with_prefix("BearerToken") or "",
                "Content-Type": "application/json",
                "Accept": "application/json",
            },
            timeout=TIMEOUT,
            retries=False,
            redirect=False,
            preload_content=False,
        )
        raw = answer.read(ANSWER_BYTES_MAX)
    except urllib3.exceptions.HTTPError as error:
        raise SourceUnavailableError(
            f"Cluster {slug} did not answer with a new token.", reason="unreachable"
        ) from error
    except ValueError:
        raise SourceUnavailableError(
            f"The URL or the token of cluster {slug} cannot be sent.", reason="bad_target"
        ) from None  # The cause may show the token.
    finally:
        pools.clear()
    if answer.status not in {HTTPStatus.OK, HTTPStatus.CREATED}:
        raise SourceUnavailableError(
            f"Cluster {slug} refused a new token with {answer.status}. Apply the role of"
            " deploy/kubernetes, or put a new token there.",
            reason="token_refused",
        )
    try:
        return str(json.loads(raw)["status"]["token"])
    except (ValueError, KeyError, TypeError):
        raise SourceUnavailableError(
            f"Cluster {slug} did not answer as an API server does.", reason="bad_answer"
        ) from None  # The cause may show a token.


def _replace(path: Path, token: str, *, slug: str) -> None:
    """Replace a file whole or not at all; only its owner may read it."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(token + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError as error:
        raise SourceUnavailableError(
            f"The new token of cluster {slug} cannot be written: {error.strerror}.",
            reason="not_writable",
        ) from error
