"""Keeping a cluster's secret to one host, so that its name alone sends it to no listener."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from tenants.domain.errors import FieldProblem
from tenants.domain.secret_references import host_of, host_problems, secret_key
from tenants.models import Cluster, SecretHost

REFERENCE_OF: Final = {
    "kubernetes_url": "credential_reference",
    "prometheus_url": "prometheus_credential_reference",
}


def secret_problems(
    cluster: Cluster,
    *,
    changed: Collection[str],
    pins: Mapping[str, Collection[str]],
    at: datetime,
) -> tuple[FieldProblem, ...]:
    """Return the problems of secrets that are for another host than a cluster's URLs have.

    An operator's pin decides; without one the first host that a secret is named for, which is
    written here, inside a transaction.

    Args:
        cluster: As it will be.
        changed: Its fields that are new.
        pins: The hosts that an operator pinned secrets to, by reference.
        at: When, UTC.
    """
    problems: list[FieldProblem] = []
    for url_field, field in REFERENCE_OF.items():
        url, reference = getattr(cluster, url_field), getattr(cluster, field)
        if {url_field, field}.isdisjoint(changed) or not url or not secret_key(reference):
            continue
        allowed = pins.get(reference)
        if allowed is None:
            allowed = _first_host(reference, url=url, at=at)
        problems += host_problems(field, reference, url=url, allowed=allowed)
    return tuple(problems)


def _first_host(reference: str, *, url: str, at: datetime) -> tuple[str, ...]:
    row, _ = SecretHost.objects.get_or_create(
        secret=secret_key(reference), defaults={"host": host_of(url), "created_at": at}
    )
    return (row.host,)
