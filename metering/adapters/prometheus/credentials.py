"""Credentials for a Prometheus: read where a cluster's reference says, never kept by us.

A `prometheus_credential_reference` is one of:

- `env:CLUSTER_SECRET_<NAME>` or `file:<path>`: a bearer token in a variable or in a file below
  CLUSTER_SECRETS_DIR;
- `basic-env:CLUSTER_SECRET_<NAME>` or `basic-file:<path>`: `user:password`, likewise.

A pin beside the secret, `CLUSTER_SECRET_<NAME>_HOST` or `<path>.host`, keeps it from other origins.
Everything is read anew for each window, so a token that was rotated is found by asking again. What
was read goes into a header of the request and nowhere else: no message, log or evidence holds it.
"""

import re
from base64 import b64encode
from typing import Final

from metering.protocols import ClusterTarget
from tenants.adapters.cluster_secrets import (
    SecretForbiddenError,
    named_secrets,
    read_secret,
    require_pinned_origin,
    require_plain_secret,
    secret_path,
    secret_variable,
)
from tenants.domain.errors import SourceUnavailableError
from tenants.domain.secret_references import split_reference

SCOPE_HEADER: Final = "X-Scope-OrgID"
"""Tells Mimir, Cortex and Thanos' receivers which tenant's series are asked for."""
BASIC: Final = "basic-"
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_SCOPE: Final = re.compile(r"[A-Za-z0-9!_.*'()|-]{1,256}", re.ASCII)
"""Source: Grafana Mimir, "About tenant IDs"; `|` joins several."""


def request_headers(target: ClusterTarget) -> dict[str, str]:
    """Return the headers that say who asks, and for whose series.

    Raises:
        SourceUnavailableError: `credentials_missing` when the reference is of no known kind or
            what it names is not there, `credentials_forbidden` when it leads elsewhere,
            `bad_target` when the tenant cannot stand in a header.
    """
    headers = {}
    if target.prometheus_credential_reference:
        headers["Authorization"] = _authorization(
            target.prometheus_credential_reference, url=target.prometheus_url
        )
    if target.prometheus_scope_org_id:
        if _SCOPE.fullmatch(target.prometheus_scope_org_id) is None:
            raise SourceUnavailableError(
                f"The tenant cannot be sent as {SCOPE_HEADER}.", reason="bad_target"
            )
        headers[SCOPE_HEADER] = target.prometheus_scope_org_id
    return headers


def _authorization(reference: str, *, url: str) -> str:
    kind = reference.partition(":")[0]
    secret = _secret(reference, url=url)
    if not kind.startswith(BASIC):
        if _TOKEN.fullmatch(secret) is None:
            raise _missing("What it names holds no token.")
        return f"Bearer {secret}"
    if ":" not in secret or not secret.isprintable():
        raise _missing("What it names holds no user:password.")
    return f"Basic {b64encode(secret.encode()).decode()}"


def _secret(reference: str, *, url: str) -> str:
    try:
        require_pinned_origin(named_secrets(reference), url=url)
        secret = _read(reference)
        require_plain_secret(secret)
    except SecretForbiddenError as error:
        raise SourceUnavailableError(
            f"The credentials for Prometheus are not used. {error}", reason="credentials_forbidden"
        ) from error
    except (OSError, ValueError) as error:
        # The error's own words would repeat what was in the file.
        raise _missing(f"Its file cannot be read ({type(error).__name__}).") from None
    return secret


def _read(reference: str) -> str:
    kind, name = split_reference(reference)
    if kind == "env":
        return secret_variable(name)
    if kind == "file":
        return read_secret(secret_path(name)).decode().strip()
    raise _missing("Use env:<NAME>, file:<path>, basic-env:<NAME> or basic-file:<path>.")


def _missing(why: str) -> SourceUnavailableError:
    return SourceUnavailableError(
        f"The credentials for Prometheus cannot be used. {why}", reason="credentials_missing"
    )
