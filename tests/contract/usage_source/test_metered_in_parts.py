"""Hours that a worker meters in parts on a real Prometheus have the rows of hours metered whole."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import transaction

from metering.adapters.prometheus import PrometheusUsageSource
from metering.domain.collection.windows import DEFAULT_POLICY, MeteringPolicy
from metering.models import MeteringWindow, UsageRecord, WindowDivision
from metering.services.collection.sweeping import Worker, meter_due
from tenants.models import NamespaceBinding
from tests.contract.usage_source.conftest import MONTH, Seen, target_of
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.ledger import Rows, everything
from tests.support.metering.seen import ACTOR

CLUSTERS = ("hopper", "ampere")
LAST = timedelta(hours=6, minutes=45)
OF_RESPONSES = ("evidence", "query_digest")
"""The columns that differ between two ways of querying."""


def set_the_stage(seen: Seen) -> None:
    """Make both clusters of the scenario, with most of their namespaces bound."""
    project = make_project(make_organization(id=UUID(int=2)), id=UUID(int=3))
    for number, slug in enumerate(CLUSTERS):
        scenario = seen.scenario.cluster(slug)
        target = target_of(scenario, seen.url)
        cluster = make_cluster(
            slug,
            id=UUID(int=10 + number),
            prometheus_url=target.prometheus_url,
            scrape_interval_seconds=target.scrape_interval_seconds,
            selector_label=target.selector_label,
            selector_value=target.selector_value,
            user_label=target.user_label,
            metered_from=MONTH + timedelta(hours=number),
        )
        namespaces = sorted({pod.namespace for pod in scenario.pods})
        for namespace in namespaces[: max(1, len(namespaces) - 1)]:
            bind(cluster, namespace, project)
    NamespaceBinding.objects.update(valid=(MONTH - timedelta(days=30), None))


def policy_of(part_pods: int) -> MeteringPolicy:
    """Return a policy that divides each window into parts of so many pods; 0 divides none."""
    if not part_pods:
        return replace(DEFAULT_POLICY, hours_together_max=1)
    return replace(DEFAULT_POLICY, hours_together_max=1, pods_undivided_max=0, part_pods=part_pods)


def metered(seen: Seen, *, part_pods: int) -> Rows:
    """Return what metering of the scenario's hours leaves behind, and take it back."""
    with transaction.atomic():
        set_the_stage(seen)
        worker = Worker(
            name="worker-1",
            source=PrometheusUsageSource(),
            actor=ACTOR,
            policy=policy_of(part_pods),
        )
        meter_due(worker=worker, at=MONTH + LAST)
        assert not WindowDivision.objects.exists()
        found = without_responses()
        transaction.set_rollback(True)
    return found


def without_responses() -> Rows:
    """Return all rows without the columns that differ between two ways of querying."""
    return {
        table: sorted((tuple(map(_plain, row)) for row in found), key=repr)
        for table, found in everything().items()
    }


def _plain(value: object) -> object:
    """Return a value without digests of responses, and the list of them as its kind alone."""
    if isinstance(value, dict):
        return {key: one for key, one in value.items() if key not in OF_RESPONSES}
    if isinstance(value, list) and value and isinstance(value[0], dict) and "sha256" in value[0]:
        return "evidence"
    return value


@pytest.fixture(scope="module")
def whole() -> dict[str, Rows]:
    """Keep the rows of hours metered whole, which all tests here compare with."""
    return {}


@pytest.mark.django_db
@pytest.mark.parametrize("part_pods", [40, 10, 3])
def test_hours_metered_in_parts_have_the_same_rows(
    prometheus: Seen, part_pods: int, whole: dict[str, Rows]
) -> None:
    if not whole:
        whole.update(rows=metered(prometheus, part_pods=0))

    found = metered(prometheus, part_pods=part_pods)

    assert found == whole["rows"]
    assert len(found["UsageRecord"]) > len(CLUSTERS)
    assert found["MeteringException"]


@pytest.mark.django_db
def test_each_part_asks_prometheus_as_often_whatever_it_holds(prometheus: Seen) -> None:
    with transaction.atomic():
        set_the_stage(prometheus)
        source = PrometheusUsageSource()
        worker = Worker(name="worker-1", source=source, actor=ACTOR, policy=policy_of(10))
        meter_due(worker=worker, at=MONTH + timedelta(hours=1, minutes=45))
        window = MeteringWindow.objects.get(cluster__slug="hopper", start_at=MONTH)
        asked = [one["query"] for one in window.evidence]
        records = UsageRecord.objects.filter(window=window).count()
        transaction.set_rollback(True)

    of_parts = [query for query in asked if "uid" in query and 'uid=~"' in query]
    assert window.record_count == records
    assert of_parts
    assert len(of_parts) % 3 == 0
