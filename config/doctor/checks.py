"""All checks of an installation, by section, in the order in which they are printed."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Final

from billing.selectors.exports.runs import active_schedules
from config.doctor import (
    background,
    cluster_api,
    clusters,
    database,
    delivery,
    invoicing,
    prometheus,
    site,
    webhook,
)
from config.doctor.findings import CheckResult, InstallationCheck, warning
from quotas.adapters.cluster_calls import ClusterCalls

DATABASE: Final = "Database"
BACKGROUND: Final = "Background work"
CLUSTERS: Final = "Clusters"
DELIVERIES: Final = "Deliveries"
BILLING: Final = "Billing"
SITE: Final = "Site"


def installation_checks(*, at: datetime) -> list[InstallationCheck]:
    """Return every check that this installation can be asked; without a database, fewer.

    Args:
        at: The present moment, UTC.
    """
    server = InstallationCheck(DATABASE, ("database",), database.check_server)
    if not database.can_connect():
        return [server, *_of_background()]
    if not database.is_migrated():
        # No table can be read: what is wrong stands under migrations.
        return [server, *_of_database(at)[:1], *_of_background()]
    return [
        server,
        *_of_database(at),
        *_of_background(),
        _dedicated(),
        *_of_clusters(at),
        *_of_deliveries(),
        *_of_billing(at),
        *_of_site(at),
    ]


def select_checks(
    checks: Iterable[InstallationCheck], only: Iterable[str]
) -> list[InstallationCheck]:
    """Return the checks that may return one of these findings; all where none is named.

    Args:
        checks: All of them.
        only: Names such as "broker", subjects such as "hopper", or both as "watch:hopper".
    """
    names = list(only)
    return [
        check
        for check in checks
        if not names or any(is_named(name, check.subject, names) for name in check.names)
    ]


def is_named(name: str, subject: str, only: Iterable[str]) -> bool:
    """Whether a finding is one of those that were named."""
    return not {name, subject, f"{name}:{subject}"}.isdisjoint(filter(None, only))


def select_results(results: Iterable[CheckResult], only: Iterable[str]) -> list[CheckResult]:
    """Return the findings that were named; all where none is."""
    names = list(only)
    return [one for one in results if not names or is_named(one.check, one.subject, names)]


def _of_database(at: datetime) -> list[InstallationCheck]:
    asked: dict[str, Callable[[], Iterable[CheckResult]]] = {
        "migrations": database.check_migrations,
        "role": database.check_role,
        "triggers": database.check_triggers,
        "objects": database.check_objects,
        "timeouts": database.check_timeouts,
        "clocks": database.check_clocks,
        "partitions": partial(database.check_partitions, at=at),
        "verification": database.check_verification,
        "replica": database.check_replica,
    }
    return [
        *(
            InstallationCheck(DATABASE, (name,), run, needs_database=True)
            for name, run in asked.items()
        ),
        InstallationCheck(DATABASE, ("pooler",), database.check_pooler),
    ]


def _of_background() -> list[InstallationCheck]:
    names = ("broker", "workers", "beat")
    return [InstallationCheck(BACKGROUND, names, background.check_background)]


def _of_clusters(at: datetime) -> list[InstallationCheck]:
    found = clusters.active_clusters(at=at)
    if not found:
        return [InstallationCheck(CLUSTERS, ("clusters",), _without_clusters)]
    calls = ClusterCalls()
    return [check for facts in found for check in _of_cluster(facts, calls, at)]


def _dedicated() -> InstallationCheck:
    check = background.check_queues
    return InstallationCheck(BACKGROUND, ("dedicated",), check, needs_database=True)


def _of_cluster(
    facts: clusters.ClusterFacts, calls: ClusterCalls, at: datetime
) -> list[InstallationCheck]:
    slug = facts.cluster.slug
    asked: dict[tuple[str, ...], Callable[[], Iterable[CheckResult]]] = {
        prometheus.NAMES: partial(prometheus.check_prometheus, facts),
        cluster_api.NAMES: partial(cluster_api.check_kubernetes, facts, calls),
        ("watch",): partial(clusters.check_watch, facts, at=at),
        webhook.NAMES: partial(webhook.check_webhook, facts, calls),
    }
    return [
        InstallationCheck(f"Cluster {slug}", names, run, subject=slug)
        for names, run in asked.items()
    ]


def _without_clusters() -> list[CheckResult]:
    return [
        warning(
            "clusters",
            "There is no active cluster: nothing is metered.",
            "Connect one.",
            "docs/how-to/connect-a-cluster.md",
        )
    ]


def _of_deliveries() -> list[InstallationCheck]:
    return [
        InstallationCheck(DELIVERIES, ("mail",), delivery.check_mail),
        *(
            InstallationCheck(
                DELIVERIES,
                ("export",),
                partial(delivery.check_export, schedule),
                subject=schedule.slug,
            )
            for schedule in active_schedules()
        ),
    ]


def _of_billing(at: datetime) -> list[InstallationCheck]:
    asked: dict[str, Callable[[], Iterable[CheckResult]]] = {
        "issuer": invoicing.check_issuers,
        "logo": invoicing.check_logos,
        "taxes": partial(invoicing.check_taxes, at=at),
        "price-books": partial(invoicing.check_price_books, at=at),
    }
    return [
        InstallationCheck(BILLING, (name,), run, needs_database=True) for name, run in asked.items()
    ]


def _of_site(at: datetime) -> list[InstallationCheck]:
    zones = partial(site.check_time_zones, at=at)
    return [
        InstallationCheck(SITE, ("settings",), site.check_settings),
        InstallationCheck(SITE, ("storage",), site.check_files),
        InstallationCheck(SITE, ("time-zones",), zones, needs_database=True),
    ]
