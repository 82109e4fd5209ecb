"""What pods alike are judged once by the same facts, and no pod is taken for another."""

from itertools import permutations
from typing import Any
from unittest.mock import Mock

import pytest

from quotas.domain.admission.review import read_review
from quotas.selectors.admission.facts import AdmissionFacts, admission_facts
from quotas.webhook import answers, pods
from quotas.webhook.decisions import Decision
from quotas.webhook.pods import Weighed, weigh_pod
from tenants.models import Cluster
from tests.quotas.webhook.conftest import WHOLE, make_node
from tests.support.builders import AT, bind, make_cluster, make_organization, make_project
from tests.support.quotas.builders import make_policy
from tests.support.quotas.reviews import body, pod
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
SHARED = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-SHARED", "nvidia.com/gpu.replicas": "4"}


def asks(gpus: int = 1, *, product: str = WHOLE["nvidia.com/gpu.product"], kind: str = "") -> Any:  # noqa: ANN401 - A pod.
    """Return a pod for the nodes of a product."""
    made = pod(gpus, nodeSelector={"nvidia.com/gpu.product": product})
    made["metadata"]["labels"] = {"gpu-ledger.io/work-kind": kind}
    return made


ON_SHARED = asks(product=SHARED["nvidia.com/gpu.product"])
ASKS = [
    body(asks(1)),
    body(asks(2)),
    body(asks(1), namespace="team-x"),
    body(pod(1)),
    body(ON_SHARED),
    body(ON_SHARED, namespace="team-x"),
    body(asks(1, kind="nonsense")),
    body(asks(1)).replace(b'nvidia.com/gpu"', b'nvidia.com/mig-1g.5gb"'),
]


@shared_rows
def hopper() -> Cluster:
    """Return a cluster of whole and of shared devices, with namespaces of two organizations."""
    cluster = make_cluster(is_watched=True, admission_mode="enforce", offered_resources=[])
    make_node(cluster)
    make_node(cluster, "n2", labels=SHARED)
    bind(cluster, "team-llm", make_project(make_organization()))
    umbrella = make_organization("umbrella")
    bind(cluster, "team-x", make_project(umbrella, "x"))
    # What is asked for by both alike is let in for one of them only.
    make_policy(umbrella, modes=("whole", "time-slicing"), allow_shared_with_other_tenants=True)
    return cluster


def facts_of(cluster: Cluster) -> AdmissionFacts:
    facts = admission_facts(cluster.slug, AT)
    assert facts is not None
    return facts


def reported(sent: bytes, facts: AdmissionFacts) -> Any:  # noqa: ANN401 - What is asked, or a decision.
    weighed = weigh_pod(read_review(sent), facts, terms=answers.terms())
    return weighed.question if isinstance(weighed, Weighed) else weighed


def test_no_pod_is_taken_for_another(hopper: Cluster) -> None:
    alone = [reported(sent, facts_of(hopper)) for sent in ASKS]

    # A pod for anywhere may meet others, and is refused as one for shared devices is.
    assert len({repr(one) for one in alone}) == len(ASKS) - 1
    assert [isinstance(one, Decision) for one in alone[4:6]] == [True, False]
    for order in list(permutations(range(len(ASKS))))[::1_009]:
        facts = facts_of(hopper)
        for _ in range(2):
            assert {number: reported(ASKS[number], facts) for number in order} == dict(
                enumerate(alone)
            )


def test_pods_alike_are_judged_once(hopper: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    facts, judged = facts_of(hopper), Mock(wraps=pods.demands_for)
    monkeypatch.setattr(pods, "demands_for", judged)

    for number in range(4):
        reported(body(asks()).replace(b"train-x7k2p", b"train-%d" % number), facts)
    assert judged.call_count == 1

    reported(body(asks()), facts_of(hopper))
    assert judged.call_count == 2


@pytest.mark.parametrize("count", [60, 70])
def test_only_what_is_small_is_remembered(hopper: Cluster, count: int) -> None:
    names = [f"n{number}" for number in range(count)]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    facts = facts_of(hopper)

    first, again = (
        reported(body(pod(1, affinity={"nodeAffinity": required})), facts) for _ in "12"
    )

    assert first == again
    assert len(facts.judged) == (1 if count < pods.JUDGED_PARTS_MAX else 0)


def test_what_is_remembered_is_bounded(hopper: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "JUDGED_MAX", 2)
    facts = facts_of(hopper)

    asked = [reported(body(asks(units)), facts).demands[0].units for units in (1, 2, 3, 4, 3)]

    assert asked == [1, 2, 3, 4, 3]
    assert len(facts.judged) == 2
