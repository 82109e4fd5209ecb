"""Credentials for a Prometheus: found where a cluster's reference says, never kept by us.

A `prometheus_credential_reference` is one of:

- `env:<NAME>` or `file:<path>`: a bearer token in a variable or in a file;
- `basic-env:<NAME>` or `basic-file:<path>`: `user:password`, likewise.

Everything is read anew for each window, so a token that was rotated is found by asking again. What
was read goes into a header of the request and nowhere else: no message, log or evidence holds it.
"""

import os
import re
from base64 import b64encode
from pathlib import Path
from typing import Final

from metering.protocols import ClusterTarget
from tenants.domain.errors import SourceUnavailableError

SCOPE_HEADER: Final = "X-Scope-OrgID"
"""Tells Mimir, Cortex and Thanos' receivers which tenant's series are asked for."""
BASIC: Final = "basic-"
SECRET_BYTES_MAX: Final = 16 * 1024
OWN_SECRETS: Final = frozenset(
    {"SECRET_KEY", "API_TOKEN_PEPPER", "DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL"}
)
"""Variables of this service itself: naming one would hand it to whoever answers there."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_SCOPE: Final = re.compile(r"[A-Za-z0-9!_.*'()|-]{1,256}", re.ASCII)
"""Source: Grafana Mimir, "About tenant IDs"; `|` joins several."""


def request_headers(target: ClusterTarget) -> dict[str, str]:
    """Return the headers that say who asks, and for whose series.

    Raises:
        SourceUnavailableError: `credentials_missing` when the reference is of no known kind or
            what it names is not there, `bad_target` when the tenant cannot stand in a header.
    """
    headers = {}
    if target.prometheus_credential_reference:
        headers["Authorization"] = _authorization(target.prometheus_credential_reference)
    if target.prometheus_scope_org_id:
        if _SCOPE.fullmatch(target.prometheus_scope_org_id) is None:
            raise SourceUnavailableError(
                f"The tenant cannot be sent as {SCOPE_HEADER}.", reason="bad_target"
            )
        headers[SCOPE_HEADER] = target.prometheus_scope_org_id
    return headers


def _authorization(reference: str) -> str:
    kind, _, place = reference.partition(":")
    secret = _secret(kind.removeprefix(BASIC), place)
    if not kind.startswith(BASIC):
        if _TOKEN.fullmatch(secret) is None:
            raise _missing("What it names holds no token.")
        return f"Bearer {secret}"
    if ":" not in secret or not secret.isprintable():
        raise _missing("What it names holds no user:password.")
    return f"Basic {b64encode(secret.encode()).decode()}"


def _secret(kind: str, place: str) -> str:
    if kind == "env" and place not in OWN_SECRETS:
        return os.environ.get(place, "").strip()
    if kind == "file":
        return _read(Path(place))
    raise _missing("Use env:<NAME>, file:<path>, basic-env:<NAME> or basic-file:<path>.")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(SECRET_BYTES_MAX).decode().strip()
    except (OSError, ValueError) as error:
        # The error's own words would repeat what was in the file.
        raise _missing(f"Its file cannot be read ({type(error).__name__}).") from None


def _missing(why: str) -> SourceUnavailableError:
    return SourceUnavailableError(
        f"The credentials for Prometheus cannot be used. {why}", reason="credentials_missing"
    )
