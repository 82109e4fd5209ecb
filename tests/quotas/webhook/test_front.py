"""The front: what plainly fits is answered on the event loop, everything else in a thread."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connections, transaction
from django.utils import timezone

from quotas.adapters.cluster_calls import ClusterCalls
from quotas.adapters.pod_proofs import PodProofs, PodsOfController
from quotas.models import AdmissionRefusal, QuotaLimit
from quotas.services.limits.changes import open_counter
from quotas.webhook import answers, unseen
from quotas.webhook.figures import REGISTRY
from quotas.webhook.front import AdmissionFront, make_front
from quotas.webhook.together import Together
from tenants.models import Cluster
from tests.quotas.webhook.conftest import make_node
from tests.support.builders import AT, bind, make_cluster, make_organization, make_project
from tests.support.quotas.admitting import counted, drifted
from tests.support.quotas.builders import make_limit
from tests.support.quotas.reviews import body, pod

SECOND = 1_000_000_000
CONTROLLER = "system:serviceaccount:kube-system:replicaset-controller"
pytestmark = pytest.mark.usefixtures("committed_db")
Reported = dict[str, Any]


class Pool(ThreadPoolExecutor):
    """Threads that count what they are given, and leave no connection behind."""

    given = 0

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - As it is inherited.
        self.given += 1

        def called() -> object:
            try:
                return call(*args, **kwargs)
            finally:
                connections.close_all()

        return super().submit(called)


@pytest.fixture
def limit(committed_db: str) -> QuotaLimit:
    """Return the limit of team-llm, on a cluster that enforces and refuses while undecided."""
    assert committed_db
    cluster = make_cluster(
        is_watched=True,
        admission_mode="enforce",
        admission_on_failure="deny",
        offered_resources=[],
    )
    make_node(cluster)
    acme = make_organization()
    llm = make_project(acme)
    bind(cluster, "team-llm", llm)
    made = make_limit(acme, llm, units=100)
    with transaction.atomic():
        open_counter(limit=made, at=AT)
    return made


@pytest.fixture
def threads() -> Iterator[Pool]:
    with Pool(4) as pool:
        yield pool


def pods(
    threads: Pool, *bodies: bytes, slug: str = "hopper", client_for: str = answers.ADMIT
) -> list[Reported]:
    """Return what is answered to reviews that come at the same time."""

    async def asked() -> list[answers.WebhookResponse]:
        together = Together(5 * SECOND, time.monotonic_ns)
        front = AdmissionFront(together, threads, answers.terms())
        try:
            return await asyncio.gather(*[front.answer(client_for, slug, one) for one in bodies])
        finally:
            await together.close()

    return [
        {"http": int(reported.status), **json.loads(reported.body)}
        for reported in asyncio.run(asked())
    ]


def reviews(count: int) -> list[bytes]:
    def numbered(number: int) -> bytes:
        made = pod(1)
        made["metadata"] |= {"uid": f"uid-{number}", "name": f"train-{number}"}
        return body(made)

    return [numbered(number) for number in range(count)]


def reasons(reported: list[Reported]) -> list[str]:
    return [one["response"]["auditAnnotations"]["decision"] for one in reported]


def know_facts() -> None:
    assert answers.FACTS.facts("hopper", at=timezone.now()) is not None


def test_pods_that_plainly_fit_need_no_thread(limit: QuotaLimit, threads: Pool) -> None:
    know_facts()

    reported = pods(threads, *reviews(20))

    assert reasons(reported) == ["allowed"] * 20
    assert threads.given == 0
    assert counted(limit) == (0, 20, 0, 0)
    assert drifted() == []


class OneLacking(PodProofs):
    """A cluster whose controllers lack one pod each, and have none."""

    def find_lacking(self, *_: object) -> PodsOfController:
        return PodsOfController(1, frozenset())

    def find_pod_uid(self, *_: object) -> str:
        return ""


def test_a_retry_of_a_controller_is_not_refused_because_of_its_earlier_tries(
    limit: QuotaLimit, threads: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cluster.objects.update(credential_reference="env:CLUSTER_SECRET_HOPPER")
    monkeypatch.setattr(unseen, "_quick_proofs", lambda: OneLacking(ClusterCalls()))
    QuotaLimit.objects.update(limit_units=1)
    know_facts()

    def retry(number: int, user: str, group: str = "apps/v1") -> str:
        owner = {"apiVersion": group, "kind": "ReplicaSet", "name": "web", "controller": True}
        made = json.loads(reviews(number + 1)[number])
        made["request"]["object"]["metadata"]["ownerReferences"] = [owner]
        made["request"]["userInfo"] = {"username": user}
        return reasons(pods(threads, json.dumps(made).encode()))[0]

    found = [retry(number, CONTROLLER) for number in range(3)]
    found += [retry(3, "alice"), retry(4, CONTROLLER, "example.com/v1")]
    found += reasons(pods(threads, *reviews(6)[5:]))

    assert found == ["allowed"] * 3 + ["limit_reached"] * 3
    assert counted(limit) == (0, 1, 0, 0)
    assert drifted() == []


def test_who_is_refused_is_reported_by_a_thread_why(limit: QuotaLimit, threads: Pool) -> None:
    know_facts()
    QuotaLimit.objects.update(limit_units=3)

    reported = pods(threads, *reviews(5))

    assert sorted(reasons(reported)) == ["allowed"] * 3 + ["limit_reached"] * 2
    refusals = [one["response"] for one in reported if not one["response"]["allowed"]]
    assert all("limit" in one["status"]["message"] for one in refusals)
    assert threads.given >= 2
    assert counted(limit) == (0, 3, 0, 0)


def test_facts_that_must_be_read_are_read_in_a_thread(limit: QuotaLimit, threads: Pool) -> None:
    assert reasons(pods(threads, *reviews(1))) == ["allowed"]
    assert threads.given == 1
    assert answers.FACTS.at_hand("hopper") is not None
    assert counted(limit) == (0, 1, 0, 0)


def test_what_the_ledger_need_not_be_asked_is_answered_at_once(
    limit: QuotaLimit, threads: Pool
) -> None:
    know_facts()

    reported = pods(threads, body(pod(0)), body(pod(1), operation="DELETE"), b"pods please")

    assert reasons(reported[:2]) == ["no_gpus", "nothing_to_decide"]
    assert (reported[2]["http"], "no JSON" in reported[2]["error"]) == (400, True)
    assert threads.given == 0
    assert counted(limit) == (0, 0, 0, 0)


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_dry_runs_and_clusters_that_only_warn_need_no_thread(
    limit: QuotaLimit,
    threads: Pool,
    is_dry_run: bool,  # noqa: FBT001 - A table.
) -> None:
    if not is_dry_run:
        Cluster.objects.update(admission_mode="warn")
    know_facts()

    reported = pods(threads, body(pod(1), dryRun=is_dry_run))

    assert reasons(reported) == ["allowed"]
    assert threads.given == 0
    assert counted(limit) == (0, 0 if is_dry_run else 1, 0, 0)


def test_a_single_pod_that_is_denied_needs_no_thread(limit: QuotaLimit, threads: Pool) -> None:
    know_facts()
    QuotaLimit.objects.update(limit_units=0)

    (reported,) = pods(threads, *reviews(1))

    assert reasons([reported]) == ["limit_reached"]
    assert threads.given == 0
    assert AdmissionRefusal.objects.get().count == 1
    assert counted(limit) == (0, 0, 0, 0)


def test_the_other_endpoints_are_answered_in_a_thread(limit: QuotaLimit, threads: Pool) -> None:
    know_facts()

    (reported,) = pods(threads, body(pod(1)), client_for=answers.WARN)

    assert reported["http"] == 200
    assert threads.given == 1
    assert counted(limit) == (0, 0, 0, 0)


def test_who_has_waited_for_a_thread_too_long_is_reported_so_and_not_counted(
    limit: QuotaLimit, threads: Pool
) -> None:
    know_facts()
    long_ago = time.monotonic_ns() - settings.ADMISSION_DEADLINE_SECONDS * SECOND

    reported = answers.answer(answers.ADMIT, "hopper", *reviews(1), begin=long_ago)

    assert json.loads(reported.body)["response"]["status"]["code"] == 503
    assert counted(limit) == (0, 0, 0, 0)
    # It says nothing of the ledger: the next one is asked.
    assert reasons(pods(threads, *reviews(1))) == ["allowed"]


def test_a_cluster_nobody_knows_is_not_found(threads: Pool) -> None:
    (reported,) = pods(threads, *reviews(1), slug="nowhere")

    assert reported == {"http": 404, "error": "No active cluster is called nowhere."}


def test_a_shared_connection_that_is_refused_leaves_each_to_ask_alone(
    limit: QuotaLimit, threads: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    know_facts()

    async def refuse(**_: object) -> psycopg.AsyncConnection:
        raise psycopg.OperationalError("too many clients already")

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", refuse)

    assert reasons(pods(threads, *reviews(3))) == ["allowed"] * 3
    assert counted(limit) == (0, 3, 0, 0)


def test_answers_of_both_ways_are_counted_once(limit: QuotaLimit, threads: Pool) -> None:
    def seen() -> dict[str, float]:
        labels = {"cluster": "hopper", "endpoint": "admit"}
        name = "gpu_ledger_admission_answers_total"
        return {
            reason: REGISTRY.get_sample_value(name, {**labels, "reason": reason}) or 0
            for reason in ("allowed", "limit_reached")
        }

    assert limit.limit_units == 100
    QuotaLimit.objects.update(limit_units=3)
    know_facts()
    before = seen()

    pods(threads, *reviews(5))

    after = seen()
    assert {reason: after[reason] - before[reason] for reason in after} == {
        "allowed": 3,
        "limit_reached": 2,
    }


def test_the_front_of_a_process_is_as_the_settings_have_it(threads: Pool) -> None:
    assert isinstance(make_front(threads, time.monotonic_ns), AdmissionFront)
