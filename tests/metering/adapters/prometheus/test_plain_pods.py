"""Pods of which all series agree are composed at once, to what composing them by choice gives."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.nodes import label_sets
from metering.adapters.prometheus.pods.composing import _PodComposition, compose_pods
from metering.adapters.prometheus.pods.facts import PodFacts, PodHistory
from metering.adapters.prometheus.pods.requests import (
    RequestLabels,
    RequestReader,
    SeenPod,
    read_observations,
)
from metering.adapters.prometheus.samples import Fact, Series, Values
from metering.protocols import ClusterTarget, ContainerKind

NAMES = names_of(ClusterTarget(slug="hopper"))
NODES = label_sets(
    [
        Fact("kube_node_labels", {"node": node, "label_nvidia_com_gpu_product": product}, "1")
        for node, product in (("n1", "H100"), ("n2", "A100"), ("n2", "A100-SHARED"))
    ],
    NAMES,
)
REQUESTS, INIT_REQUESTS = (
    "kube_pod_container_resource_requests",
    "kube_pod_init_container_resource_requests",
)
SECOND = 1_790_850_000
BIND = datetime.fromtimestamp(SECOND - 90, UTC)
LABELS = {
    "uid": "u1",
    "namespace": "monitoring",
    "exported_namespace": "team-nlp",
    "pod": "train-0",
    "instance": "10.0.0.9:8080",
    "node": "n1",
    "container": "main",
    "resource": "nvidia_com_gpu",
}


def few(*texts: str) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(texts))


FACTS = st.builds(
    PodFacts,
    nodes=few("n1", "n2"),
    priorities=few("", "high"),
    owners=few("", "alice", "bob"),
    created=st.just(frozenset()),
    scheduled=st.frozensets(st.sampled_from([BIND, BIND.replace(second=0), "soon"])),
    completed=st.frozensets(st.sampled_from([BIND, "never"])),
    sidecars=few("proxy"),
    is_terminal=st.booleans(),
)
PODS = st.builds(
    SeenPod,
    namespace=st.just("team-nlp"),
    name=st.just("train-0"),
    first=st.just(SECOND * 1000),
    last=st.just(SECOND * 1000 + 60_347),
    times=st.just([[SECOND * 1000, SECOND * 1000 + 60_347]]),
    units=st.dictionaries(
        st.tuples(
            st.sampled_from([REQUESTS, INIT_REQUESTS]),
            st.sampled_from(["main", "proxy"]),
            st.just("nvidia_com_gpu"),
        ),
        st.integers(-1, 3),
        min_size=1,
    ),
    targets=st.sampled_from([(), ("",), ("b", "a")]),
    nodes=st.just({"n1": SECOND * 1000}),
    defects=few("Its name cannot be."),
)


@given(FACTS, PODS)
def test_a_plain_pod_is_what_choosing_gives(facts: PodFacts, pod: SeenPod) -> None:
    chosen = _PodComposition("u1", pod, facts, PodHistory()).compose(NODES)

    (composed,) = compose_pods({"u1": pod}, {"u1": facts}, PodHistory(), NODES)

    assert composed == chosen


@pytest.mark.parametrize(
    ("changed", "is_plain"),
    [
        ({}, True),
        ({"is_terminal": True}, False),
        ({"scheduled": frozenset()}, False),
        ({"scheduled": frozenset({"soon"})}, False),
        ({"nodes": frozenset({"n1", "n2"})}, False),
        ({"nodes": frozenset()}, True),
        ({"owners": frozenset({"alice", "bob"})}, False),
        ({"priorities": frozenset({"", "high"})}, False),
    ],
)
def test_a_pod_about_which_series_differ_is_not_plain(
    changed: dict[str, frozenset[str] | bool], *, is_plain: bool
) -> None:
    facts = {
        "nodes": frozenset({"n1"}),
        "owners": frozenset({"alice"}),
        "priorities": frozenset({"high"}),
        "scheduled": frozenset({BIND}),
    }

    assert PodFacts(**{**facts, **changed}).is_plain is is_plain  # type: ignore[arg-type]


def test_pods_that_are_made_alike_share_their_request() -> None:
    facts = PodFacts(scheduled=frozenset({BIND}))
    pods = {
        uid: SeenPod("team-nlp", uid, 0, 0, units={(REQUESTS, "main", "nvidia_com_gpu"): 2})
        for uid in ("u1", "u2")
    }

    first, second = compose_pods(pods, dict.fromkeys(pods, facts), PodHistory(), NODES)

    assert first.requests[0] is second.requests[0]
    assert (first.requests[0].units, first.requests[0].kind) == (2, ContainerKind.REGULAR)


@pytest.mark.parametrize("is_shared", [False, True])
def test_labels_of_a_request_are_read_by_the_best_spelling(*, is_shared: bool) -> None:
    reader = RequestReader(NAMES, is_shared=is_shared)

    found = [reader.read(LABELS) for _ in range(2)]

    assert found[0] == found[1]
    assert (found[0] is found[1]) is is_shared
    assert found[0] == RequestLabels(
        uid="u1",
        namespace="team-nlp",
        name="train-0",
        target="10.0.0.9:8080",
        node="n1",
        container="main",
        resource="nvidia_com_gpu",
    )


def test_hours_that_share_labels_have_times_of_their_own() -> None:
    reader = RequestReader(NAMES, is_shared=True)
    hours = [
        [Series(REQUESTS, LABELS, [at, at + 60_000], Values(["1", "1"]))] for at in (0, 3_600_000)
    ]

    seen = [read_observations(one, reader)["u1"] for one in hours]

    assert [(pod.first, pod.last) for pod in seen] == [(0, 60_000), (3_600_000, 3_660_000)]
    assert [pod.nodes for pod in seen] == [{"n1": 60_000}, {"n1": 3_660_000}]
    assert {pod.targets for pod in seen} == {("10.0.0.9:8080",)}
