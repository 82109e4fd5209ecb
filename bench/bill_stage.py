"""Six hours of 4,000 pods in a real Prometheus, and the organizations that own them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from bench.harness import scaled
from bench.pod_history import SCRAPE_SECONDS, USER_LABEL, PodCluster, namespace_of, start
from embedded.prometheus import EmbeddedPrometheus

START: Final = datetime(2026, 10, 5, tzinfo=UTC)
HOURS: Final = 6
PODS: Final = scaled(4_000)
POD_HOURS: Final = 2
"""Every tenth GPU serves three pods one after another, the others one pod all the time."""
USERS: Final = scaled(200)
SELECTOR: Final = "bill"
"""Any number of clusters may read the same series."""


def start_prometheus(folder: Path, *, namespaces: int) -> EmbeddedPrometheus:
    """Return a server that holds the history.

    Args:
        folder: For its state.
        namespaces: That share the pods.
    """
    history = PodCluster(
        slug=SELECTOR,
        begin=START,
        hours=HOURS,
        gpus=PODS,
        pod_seconds=POD_HOURS * 3600,
        namespaces=namespaces,
        users=USERS,
    )
    return start(folder, [history])


def make_projects(slug: str, count: int) -> list[Any]:
    """Make so many organizations with a project each, all with one price."""
    from billing.services.pricing.assignments import (  # noqa: PLC0415 - Django is set up by now.
        assign_price_book,
    )
    from billing.services.pricing.prices import create_price_book, set_price  # noqa: PLC0415
    from tenants.services.organizations import (  # noqa: PLC0415
        create_organization,
        create_project,
    )

    by = _by()
    book = create_price_book(slug=slug, name="Book", currency="EUR", **by)
    set_price(price_book=book, size="large", unit_price=Decimal("2.5"), valid_from=START, **by)
    projects = []
    for number in range(count):
        name = f"{slug}-{number}"
        owner = create_organization(slug=name, name=name, billing_currency="EUR", **by)
        assign_price_book(organization=owner, price_book=book, valid_from=START, **by)
        projects.append(create_project(organization=owner, slug=name, name=name, **by))
    return projects


def register(slug: str, url: str, *, projects: Sequence[Any], namespaces: int) -> Any:  # noqa: ANN401 - A Cluster.
    """Register a cluster of all the pods; its projects share the namespaces."""
    from tenants.services.clusters import register_cluster  # noqa: PLC0415 - Django is set up.
    from tenants.services.namespaces import bind_namespace  # noqa: PLC0415

    by = _by()
    cluster = register_cluster(
        slug=slug,
        name=slug,
        metered_from=START,
        prometheus_url=url,
        selector_label="cluster",
        selector_value=SELECTOR,
        scrape_interval_seconds=SCRAPE_SECONDS,
        user_label=USER_LABEL,
        **by,
    )
    for number in range(namespaces):
        bind_namespace(
            cluster=cluster,
            namespace=namespace_of(number),
            project=projects[number % len(projects)],
            valid_from=START,
            **by,
        )
    return cluster


def _by() -> dict[str, Any]:
    from tenants.domain.actors import system_actor  # noqa: PLC0415 - Django is set up by now.

    return {"actor": system_actor("bench"), "at": START}
