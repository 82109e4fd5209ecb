"""Writing clusters: registered, described anew, closed."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from tenants.domain.actors import Actor
from tenants.domain.clusters import (
    NamedSecret,
    admission_problems,
    alias_problems,
    later_problems,
    metered_problems,
    origin_of,
    origin_problems,
    reference_problems,
    resource_problems,
    scope_problems,
    secrets_by_name,
    selector_problems,
    url_problems,
    user_label_problems,
    watch_problems,
)
from tenants.domain.errors import FieldProblem
from tenants.domain.refusals import OpenBindingsError, SlugTakenError
from tenants.models import Cluster, NamespaceBinding, SecretHost
from tenants.models.cluster import AdmissionMode, FailurePolicy, QuotaTarget
from tenants.selectors.archives import archived_problems
from tenants.selectors.locks import lock_metered_hours
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record
from tenants.services.changing import (
    add_row,
    change_row,
    close_row,
    lock_version,
    require_editable,
)

EDITABLE: Final = (
    "name",
    "kubernetes_url",
    "is_watched",
    "prometheus_url",
    "prometheus_credential_reference",
    "prometheus_scope_org_id",
    "credential_reference",
    "selector_label",
    "selector_value",
    "scrape_interval_seconds",
    "user_label",
    "offered_resources",
    "label_aliases",
    "metric_aliases",
    "admission_mode",
    "admission_on_failure",
    "kubernetes_user_prefix",
    "trusted_controllers",
    "quota_target",
    "metered_from",
    "metered_until",
)
REFERENCE_OF: Final = {
    "kubernetes_url": "credential_reference",
    "prometheus_url": "prometheus_credential_reference",
}
Secrets = Mapping[str, Sequence[NamedSecret]]
"""What references lead to, as the entry point read it: of the change and of all clusters."""
NO_SECRETS: Final[Secrets] = {}
SLUG_KEY: Final = "tenants_cluster_slug_key"


@transaction.atomic
def register_cluster(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    slug: str,
    name: str,
    metered_from: datetime,
    kubernetes_url: str = "",
    is_watched: bool = False,
    prometheus_url: str = "",
    prometheus_credential_reference: str = "",
    prometheus_scope_org_id: str = "",
    credential_reference: str = "",
    selector_label: str = "",
    selector_value: str = "",
    scrape_interval_seconds: int = 30,
    user_label: str = "",
    offered_resources: Sequence[str] = (),
    label_aliases: Mapping[str, Sequence[str]] | None = None,
    metric_aliases: Mapping[str, Sequence[str]] | None = None,
    admission_mode: str = AdmissionMode.OFF,
    admission_on_failure: str = FailurePolicy.ALLOW,
    kubernetes_user_prefix: str = "",
    trusted_controllers: Sequence[str] = (),
    quota_target: str = QuotaTarget.RESOURCE_QUOTA,
    problems: Sequence[FieldProblem] = (),
    secrets: Secrets = NO_SECRETS,
    actor: Actor,
    at: datetime,
) -> Cluster:
    """Register a cluster; it is metered from `metered_from` on.

    Args:
        slug: Its short name, unique on the platform.
        name: What people call it.
        metered_from: The first metered hour, the start of a UTC hour.
        kubernetes_url: Where its API answers, https.
        is_watched: Whether its API feeds the allocation ledger.
        prometheus_url: Where its series are.
        prometheus_credential_reference: The name of a secret for it, never the secret.
        prometheus_scope_org_id: Its tenant in a shared Mimir or Thanos; "" for none.
        credential_reference: The name of a secret, never the secret.
        selector_label: With `selector_value`, which series of a shared Prometheus are its own.
        selector_value: See `selector_label`.
        scrape_interval_seconds: How often its exporters are scraped.
        user_label: The pod label that names the owning user; "" for none.
        offered_resources: Every GPU resource name it offers.
        label_aliases: The site's label names by ours, best first.
        metric_aliases: The site's metric names by ours, best first.
        admission_mode: "off", "warn" or "enforce"; all but "off" take a watched cluster.
        admission_on_failure: "allow" or "deny", while the ledger cannot be asked.
        kubernetes_user_prefix: What its API puts before a person's name, such as "oidc:".
        trusted_controllers: User names whose pods may carry another's owner annotation.
        quota_target: "resource_quota" or "kueue".
        problems: What the entry point found wrong with its files and addresses.
        secrets: What references lead to, with the pins of an operator.
        actor: The caller.
        at: When, UTC.

    Raises:
        InvalidInputError: Fields are wrong, or hours are archived; every problem is listed.
        SlugTakenError: Another cluster has the slug.
    """
    cluster = Cluster(
        slug=slug,
        name=name,
        metered_from=metered_from,
        kubernetes_url=kubernetes_url,
        is_watched=is_watched,
        prometheus_url=prometheus_url,
        prometheus_credential_reference=prometheus_credential_reference,
        prometheus_scope_org_id=prometheus_scope_org_id,
        credential_reference=credential_reference,
        selector_label=selector_label,
        selector_value=selector_value,
        scrape_interval_seconds=scrape_interval_seconds,
        user_label=user_label,
        offered_resources=list(offered_resources),
        label_aliases=_lists(label_aliases),
        metric_aliases=_lists(metric_aliases),
        admission_mode=admission_mode,
        admission_on_failure=admission_on_failure,
        kubernetes_user_prefix=kubernetes_user_prefix,
        trusted_controllers=list(trusted_controllers),
        quota_target=quota_target,
        created_at=at,
    )
    lock_metered_hours()
    wrong = (*_problems(cluster), *archived_problems(cluster), *problems)
    wrong = wrong or secret_problems(cluster, changed=EDITABLE, secrets=secrets, at=at)
    refuse_invalid(cluster, further=wrong)
    _add(cluster, actor=actor, at=at)
    return cluster


@transaction.atomic
def update_cluster(  # noqa: PLR0913 - As above.
    *,
    cluster: Cluster,
    changes: Mapping[str, Any],
    problems: Sequence[FieldProblem] = (),
    expected_version: int | None = None,
    secrets: Secrets = NO_SECRETS,
    actor: Actor,
    at: datetime,
) -> Cluster:
    """Change how a cluster is reached, observed or named, and which hours of it are metered.

    An earlier `metered_from` has the hours since then metered, as far as its sources still have
    them. From `metered_until` on no hour is opened, and what is not sealed there is waived; without
    it, metering goes on after its newest hour.

    A credential is for one address: a new URL drops the reference, unless the same change names it,
    and a secret goes to another origin than its first only where an operator pinned it there.

    Args:
        cluster: Which one.
        changes: New values by field, of `EDITABLE`.
        problems: What the entry point found wrong with files and addresses they name.
        expected_version: The version the caller saw; None when it does not matter.
        secrets: What references lead to, with the pins of an operator.
        actor: The caller.
        at: When, UTC.

    Raises:
        ValueError: A field is not editable.
        StaleVersionError: It was changed in the meantime.
        InvalidInputError: The values are wrong, or hours that would be metered are archived; every
            problem is listed.
    """
    require_editable(changes, EDITABLE)
    row = lock_version(cluster, expected_version=expected_version, actor=actor)
    changes = {**_dropped_references(row, changes), **changes}
    future = Cluster(**{name: changes.get(name, getattr(row, name)) for name in EDITABLE})
    if not changes.keys().isdisjoint({"metered_from", "metered_until"}):
        lock_metered_hours()
    wrong = (
        *_problems(future),
        *later_problems(row.metered_from, future.metered_from),
        *archived_problems(future, before=row),
        *problems,
    )
    wrong = wrong or secret_problems(future, changed=changes, secrets=secrets, at=at)
    return change_row(
        row=row,
        changes=changes,
        verb="update",
        actor=actor,
        at=at,
        organization_id=None,
        problems=wrong,
    )


@transaction.atomic
def close_cluster(
    *, cluster: Cluster, expected_version: int | None = None, actor: Actor, at: datetime
) -> Cluster:
    """Close a cluster: no namespace is bound any more. Closing twice is nothing.

    The hours that began before are metered to their end.

    Raises:
        StaleVersionError: It was changed in the meantime.
        OpenBindingsError: A namespace of it is bound now or later.
    """
    row = lock_version(cluster, expected_version=expected_version, actor=actor)
    bound = NamespaceBinding.objects.filter(
        cluster=row, valid__overlap=DateTimeTZRange(at, None)
    ).count()
    if bound:
        raise OpenBindingsError(
            f"{row.name} has {bound} bound namespaces.", facts={"bound_namespaces": bound}
        )
    return close_row(
        row=row, actor=actor, at=at, organization_id=None, closed_at=row.closed_at or at
    )


@transaction.atomic
def note_credential(
    *, cluster: Cluster, expires_at: datetime, is_renewed: bool, actor: Actor, at: datetime
) -> None:
    """Note when a cluster's token ends; a renewal leaves an audit entry.

    Args:
        cluster: Which one.
        expires_at: End of the token in the cluster's file.
        is_renewed: Whether it has just replaced another token.
        actor: A system actor.
        at: When, UTC.
    """
    Cluster.objects.filter(pk=cluster.pk).update(credential_expires_at=expires_at)
    if is_renewed:
        record(
            actor=actor,
            at=at,
            action="tenants:cluster:renew_credential",
            object_kind="cluster",
            object_id=cluster.pk,
            facts={"expires_at": expires_at.isoformat()},
        )


def _add(cluster: Cluster, *, actor: Actor, at: datetime) -> None:
    taken = SlugTakenError(f'A cluster has the slug "{cluster.slug}".', field="slug")
    add_row(
        row=cluster,
        refusals={SLUG_KEY: taken},
        actor=actor,
        at=at,
        organization_id=None,
        facts={"slug": cluster.slug, "metered_from": cluster.metered_from.isoformat()},
    )


def _dropped_references(row: Cluster, changes: Mapping[str, Any]) -> dict[str, str]:
    """Return empty references for the URLs that change, as the audit entry will show them."""
    return {
        reference: ""
        for url, reference in REFERENCE_OF.items()
        if url in changes and changes[url] != getattr(row, url) and getattr(row, reference)
    }


def _problems(cluster: Cluster) -> tuple[FieldProblem, ...]:
    return (
        *metered_problems(cluster.metered_from, cluster.metered_until),
        *url_problems("kubernetes_url", cluster.kubernetes_url, schemes=("https",)),
        *url_problems("prometheus_url", cluster.prometheus_url, schemes=("http", "https")),
        *reference_problems(
            "prometheus_credential_reference", cluster.prometheus_credential_reference
        ),
        *reference_problems("credential_reference", cluster.credential_reference),
        *scope_problems(cluster.prometheus_scope_org_id),
        *selector_problems(cluster.selector_label, cluster.selector_value),
        *user_label_problems(cluster.user_label),
        *resource_problems(cluster.offered_resources),
        *watch_problems(
            is_watched=cluster.is_watched,
            kubernetes_url=cluster.kubernetes_url,
            credential_reference=cluster.credential_reference,
        ),
        *admission_problems(
            admission_mode=cluster.admission_mode,
            is_watched=cluster.is_watched,
            trusted_controllers=cluster.trusted_controllers,
        ),
        *alias_problems("label_aliases", cluster.label_aliases),
        *alias_problems("metric_aliases", cluster.metric_aliases),
    )


def _lists(aliases: Mapping[str, Sequence[str]] | None) -> dict[str, list[str]]:
    return {name: list(others) for name, others in (aliases or {}).items()}


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
                problems += _origin_problems(field, secret, url=url, at=at)
    return tuple(problems)


def _origin_problems(
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
