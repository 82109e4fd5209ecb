"""Pin a cluster's secret to one origin, so that it is never sent to another server."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from tenants.domain.clusters import (
    NamedSecret,
    origin_of,
    origin_problems,
    secrets_by_name,
)
from tenants.domain.errors import FieldProblem
from tenants.models import Cluster, SecretHost

REFERENCE_OF: Final = {
    "kubernetes_url": "credential_reference",
    "prometheus_url": "prometheus_credential_reference",
}
Secrets = Mapping[str, Sequence[NamedSecret]]
"""What references lead to, as the entry point read it: of the change and of all clusters."""


def secret_problems(
    cluster: Cluster, *, changed: Collection[str], secrets: Secrets, at: datetime
) -> tuple[FieldProblem, ...]:
    """Return the problems of secrets that are for another origin than they would be sent to.

    An operator's pin decides; without one the first origin that a secret is named for, which is
    written here, inside a transaction.

    Args:
        cluster: As it will be.
        changed: Its fields that are new.
        secrets: What its references lead to; of one that is not there, its name alone is known.
        at: When, UTC.
    """
    _pin_known(secrets, at=at)
    problems: list[FieldProblem] = []
    for url_field, field in REFERENCE_OF.items():
        if {url_field, field}.isdisjoint(changed):
            continue
        reference = getattr(cluster, field)
        for secret in secrets.get(reference, secrets_by_name(reference)):
            url = secret.url or getattr(cluster, url_field)
            if url:
                problems += _problems(field, secret, url=url, at=at)
    return tuple(problems)


def _problems(
    field: str, secret: NamedSecret, *, url: str, at: datetime
) -> tuple[FieldProblem, ...]:
    allowed = secret.origins
    if allowed is None:
        allowed = _first_origins(secret.keys, origin=origin_of(url), at=at)
    return () if secret.is_public else origin_problems(field, secret, url=url, allowed=allowed)


def _first_origins(keys: Sequence[str], *, origin: str, at: datetime) -> frozenset[str]:
    """Return the common origin of all keys of a secret; new keys get the one passed."""
    if not origin:
        return frozenset()
    _pin(dict.fromkeys(keys, origin), at=at)
    stored = frozenset(SecretHost.objects.filter(secret__in=keys).values_list("origin", flat=True))
    return stored if len(stored) == 1 else frozenset()


def _pin_known(secrets: Secrets, *, at: datetime) -> None:
    """Pin what clusters name already and no pin knows yet: links and kubeconfigs that came later.

    The oldest cluster comes first.
    """
    origins: dict[str, str] = {}
    for cluster in Cluster.objects.order_by("created_at", "pk"):
        for url_field, field in REFERENCE_OF.items():
            for secret in secrets.get(getattr(cluster, field), ()):
                origin = origin_of(secret.url or getattr(cluster, url_field))
                for key in secret.keys if origin and secret.origins is None else ():
                    origins.setdefault(key, origin)
    _pin(origins, at=at)


def _pin(origins: Mapping[str, str], *, at: datetime) -> None:
    """Write first origins by key; keys that have one keep it."""
    rows = [SecretHost(secret=key, origin=origin, created_at=at) for key, origin in origins.items()]
    SecretHost.objects.bulk_create(sorted(rows, key=lambda row: row.secret), ignore_conflicts=True)
