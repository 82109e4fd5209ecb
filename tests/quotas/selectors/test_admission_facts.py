"""What a cluster's pods are judged by, and for how long it is believed."""

import threading
from datetime import datetime
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import DjangoAssertNumQueries

from metering.domain.catalogue.units import GPUSize, SharingMode
from metering.models import NodeRecord
from quotas.domain.isolation.rules import ResourceOption
from quotas.selectors.admission.facts import (
    KEPT_NANOSECONDS,
    OLD_NANOSECONDS_MAX,
    AdmissionFacts,
    FactsCache,
    admission_facts,
)
from tenants.models import Cluster
from tenants.models.cluster import AdmissionMode, FailurePolicy
from tests.support.builders import (
    AT,
    bind,
    make_cluster,
    make_organization,
    make_project,
    make_user,
)
from tests.support.quotas.builders import see_size

pytestmark = pytest.mark.django_db
GPU = "nvidia.com/gpu"
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.replicas": "1"}
OWN = {**H100, "gpu-ledger.io/dedicated-to": "acme"}


def make_node(cluster: Cluster, name: str, labels: dict[str, str]) -> None:
    NodeRecord.objects.create(
        cluster=cluster,
        node=name,
        node_uid=name,
        labels=labels,
        allocatable={GPU: 8, "nvidia.com/gpumem": 1},
        begin_at=AT,
    )


def test_everything_a_pod_is_judged_by_is_read_together(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    hopper = make_cluster(
        admission_mode="enforce",
        admission_on_failure="deny",
        kubernetes_user_prefix="oidc:",
        trusted_controllers=["operator"],
        offered_resources=[GPU],
    )
    for number in range(5):
        make_node(hopper, f"n{number}", H100)
    make_node(hopper, "own", OWN)
    acme = make_organization()
    bind(hopper, "team-llm", make_project(acme), default_owner=make_user("lina"))
    see_size(hopper, GPU, "large")
    admission_facts("hopper", AT)

    with django_assert_num_queries(7):
        facts = admission_facts("hopper", AT)

    assert facts is not None
    assert (facts.mode, facts.on_failure) == (AdmissionMode.ENFORCE, FailurePolicy.DENY)
    assert (facts.user_prefix, facts.trusted) == ("oidc:", frozenset({"operator"}))
    assert facts.offered == {GPU}
    assert facts.seen == {GPU: {GPUSize.LARGE}}
    assert {offer.nodes for offer in facts.offers} == {
        frozenset({"n0", "n1", "n2", "n3", "n4"}),
        frozenset({"own"}),
    }
    assert all(list(offer.sized) == [GPU] for offer in facts.offers)
    assert facts.tenants["team-llm"].default_owner == "lina"
    assert facts.tenants["team-llm"].organization_id == acme.pk
    assert not facts.has_several_tenants
    product = H100["nvidia.com/gpu.product"]
    assert (
        ResourceOption(GPU, SharingMode.WHOLE, product, "acme", frozenset({"own"})) in facts.served
    )


def test_a_cluster_that_is_closed_or_unknown_has_none() -> None:
    make_cluster(state="closed")

    assert admission_facts("hopper", AT) is None
    assert admission_facts("nowhere", AT) is None


def test_two_organizations_may_meet() -> None:
    hopper = make_cluster()
    bind(hopper, "a", make_project(make_organization()))
    bind(hopper, "b", make_project(make_organization("umbrella"), "x"))

    facts = admission_facts("hopper", AT)

    assert facts is not None
    assert facts.has_several_tenants


class Reading:
    """Reads facts and counts how often; `found` is what there is."""

    def __init__(self, found: Any) -> None:  # noqa: ANN401 - Stands for facts.
        self.found = found
        self.times = 0
        self.now = 0

    def __call__(self, slug: str, at: datetime) -> AdmissionFacts | None:
        assert (slug, at) == ("hopper", AT)
        self.times += 1
        if isinstance(self.found, Exception):
            raise self.found
        found: AdmissionFacts | None = self.found
        return found


def test_facts_are_read_anew_after_two_seconds_and_not_before() -> None:
    reading = Reading("first")
    cache = FactsCache(reading, lambda: reading.now)

    assert cache.facts("hopper", at=AT) == "first"  # type: ignore[comparison-overlap] # Stand-in facts.
    reading.found, reading.now = "second", KEPT_NANOSECONDS - 1
    assert cache.facts("hopper", at=AT) == "first"  # type: ignore[comparison-overlap] # Stand-in facts.
    reading.now = KEPT_NANOSECONDS
    assert cache.facts("hopper", at=AT) == "second"  # type: ignore[comparison-overlap] # Stand-in facts.
    assert reading.times == 2


def test_old_facts_are_kept_for_when_new_ones_cannot_be_read() -> None:
    reading = Reading("first")
    cache = FactsCache(reading, lambda: reading.now)
    assert cache.last_known("hopper") is None
    cache.facts("hopper", at=AT)
    reading.found, reading.now = RuntimeError("away"), KEPT_NANOSECONDS

    with pytest.raises(RuntimeError):
        cache.facts("hopper", at=AT)

    assert cache.last_known("hopper") == "first"  # type: ignore[comparison-overlap] # Stand-in facts.
    cache.purge()
    assert cache.last_known("hopper") is None


@pytest.mark.parametrize(
    ("age", "reported"), [(OLD_NANOSECONDS_MAX - 1, "first"), (OLD_NANOSECONDS_MAX, "second")]
)
def test_while_another_reads_only_facts_that_are_not_too_old_are_given(
    age: int, reported: str
) -> None:
    reading = Reading("first")
    has_begun, may_end = threading.Event(), threading.Event()

    def read(slug: str, at: datetime) -> AdmissionFacts | None:
        if threading.current_thread() is not threading.main_thread():
            has_begun.set()
            may_end.wait(10)
        return reading(slug, at)

    cache = FactsCache(read, lambda: reading.now)
    cache.facts("hopper", at=AT)
    reading.found, reading.now = "second", age
    other = threading.Thread(target=cache.facts, args=("hopper",), kwargs={"at": AT})
    other.start()
    has_begun.wait(10)
    threading.Timer(0.05, may_end.set).start()

    found = cache.facts("hopper", at=AT)

    may_end.set()
    other.join()
    assert found == reported  # type: ignore[comparison-overlap] # Stand-in facts.
    assert reading.times == 2


def test_who_waits_for_a_reader_that_does_not_come_back_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("quotas.selectors.admission.facts.WAIT_SECONDS", 0.01)
    has_begun, may_end = threading.Event(), threading.Event()

    def read(slug: str, at: datetime) -> AdmissionFacts | None:  # noqa: ARG001 - As it is called.
        has_begun.set()
        may_end.wait(10)
        return None

    cache = FactsCache(read, lambda: 0)
    other = threading.Thread(target=cache.facts, args=("hopper",), kwargs={"at": AT})
    other.start()
    has_begun.wait(10)

    with pytest.raises(OperationalError):
        cache.facts("hopper", at=AT)

    may_end.set()
    other.join()


def test_a_cluster_that_is_gone_is_purged() -> None:
    reading = Reading("first")
    cache = FactsCache(reading, lambda: reading.now)
    cache.facts("hopper", at=AT)
    reading.found, reading.now = None, KEPT_NANOSECONDS

    assert cache.facts("hopper", at=AT) is None
    assert cache.last_known("hopper") is None
