"""Secrets in a cluster's webhook addresses: a new one, and the end of old ones."""

from datetime import datetime

from django.db import transaction

from quotas.domain.admission.secrets import digest_of
from quotas.models import WebhookSecret
from tenants.domain.actors import Actor
from tenants.models import Cluster
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record


def add_webhook_secret(*, cluster: Cluster, secret: str, actor: Actor, at: datetime) -> None:
    """Put a new secret in force beside the newest one, and end all that are older.

    So the cluster's configuration can be changed without a moment in which neither holds.

    Args:
        cluster: Whose API server shows it.
        secret: Drawn by the caller; only its hash is kept.
        actor: The caller.
        at: When, UTC.
    """
    with transaction.atomic():
        lock_rows(Cluster.objects.filter(pk=cluster.pk))
        kept = _in_force(cluster)[:1]
        ended = _end(_in_force(cluster)[1:], at)
        WebhookSecret.objects.create(cluster=cluster, digest=digest_of(secret), created_at=at)
        record(
            actor=actor,
            at=at,
            action="quotas:webhook_secret:create",
            object_kind="cluster",
            object_id=cluster.pk,
            facts={"in_force": len(kept) + 1, "ended": ended},
        )


def end_webhook_secrets(
    *, cluster: Cluster, is_newest_kept: bool, actor: Actor, at: datetime
) -> int:
    """End a cluster's secrets, or all but the newest; return how many.

    Args:
        cluster: Whose.
        is_newest_kept: Whether the newest stays in force.
        actor: The caller.
        at: When, UTC.
    """
    with transaction.atomic():
        lock_rows(Cluster.objects.filter(pk=cluster.pk))
        ended = _end(_in_force(cluster)[1 if is_newest_kept else 0 :], at)
        if ended:
            record(
                actor=actor,
                at=at,
                action="quotas:webhook_secret:end",
                object_kind="cluster",
                object_id=cluster.pk,
                facts={"in_force": int(is_newest_kept), "ended": ended},
            )
    return ended


def _in_force(cluster: Cluster) -> list[WebhookSecret]:
    """Return secrets in force, newest first."""
    rows = WebhookSecret.objects.filter(cluster=cluster, ended_at__isnull=True)
    return list(rows.order_by("-created_at", "-pk"))


def _end(rows: list[WebhookSecret], at: datetime) -> int:
    numbers = [row.pk for row in rows]
    return WebhookSecret.objects.filter(pk__in=numbers).update(ended_at=at)
