"""Pods: by uid, over every copy, with an end that is reported or bounded but never guessed."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from metering.adapters.prometheus.completeness import refuse_incomplete
from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.nodes import NodeLabels, label_sets
from metering.adapters.prometheus.pods.composing import compose_pods
from metering.adapters.prometheus.pods.facts import (
    PodHistory,
    questions,
    read_facts,
    read_history,
)
from metering.adapters.prometheus.pods.requests import RequestReader, read_observations
from metering.adapters.prometheus.samples import Fact, Range, Series
from metering.protocols import ClusterTarget, ContainerKind, ContainerRequest, PodObservation
from tenants.domain.errors import SourceUnavailableError

NAMES = names_of(ClusterTarget(slug="hopper"))
NOW = 1_790_850_000
WITHIN = Range(NOW - 3600, NOW)
NO_LABELS: NodeLabels = label_sets((), NAMES)
REQUESTS = "kube_pod_container_resource_requests"
INIT_REQUESTS = "kube_pod_init_container_resource_requests"


def who(uid: str = "u1", name: str = "train-0") -> dict[str, str]:
    return {"namespace": "team-nlp", "pod": name, "uid": uid}


def observation(
    times: Sequence[int],
    units: str = "1",
    *,
    pod: dict[str, str] | None = None,
    metric: str = REQUESTS,
    container: str = "main",
    resource: str = "nvidia_com_gpu",
) -> Series:
    labels = {**(pod or who()), "container": container, "resource": resource}
    return Series(metric, labels, [(NOW + at) * 1000 for at in times], [units] * len(times))


def fact(
    metric: str, value: str = "1", *, pod: dict[str, str] | None = None, **labels: str
) -> Fact:
    return Fact(metric, {**(pod or who()), **labels}, value)


def bound(pod: dict[str, str] | None = None, node: str = "n1") -> list[Fact]:
    return [
        fact("kube_pod_info", pod=pod, node=node, priority_class="gpu-standard"),
        fact("kube_pod_status_scheduled_time", str(NOW - 3000), pod=pod),
    ]


def failed(pod: dict[str, str] | None = None) -> Fact:
    return fact("kube_pod_status_phase", pod=pod, phase="Failed")


def read(
    observations: Sequence[Series],
    facts: Sequence[Fact],
    details: Sequence[Series] = (),
    user_label: str = "user",
) -> tuple[PodObservation, ...]:
    seen = read_observations(observations, RequestReader(NAMES))
    known = read_facts(facts, NAMES, user_label=user_label, within=WITHIN)
    refuse_incomplete(seen, known)
    return compose_pods(seen, known, read_history(details, user_label=user_label), NO_LABELS)


def at(offset: int) -> datetime:
    return datetime.fromtimestamp(NOW + offset, UTC)


def test_observations_of_all_copies_are_one_life() -> None:
    copies = [observation([-600, -540]), observation([-900, -570]), observation([-60, -30])]

    (pod,) = read(copies, bound())

    assert (pod.first_seen_at, pod.last_seen_at) == (at(-900), at(-30))


def test_a_name_that_is_used_again_is_another_pod() -> None:
    first, again = who("u1"), who("u2")

    pods = read(
        [observation([-60], pod=again), observation([-600], pod=first)],
        [*bound(first), *bound(again)],
    )

    assert [(pod.uid, pod.name, pod.last_seen_at) for pod in pods] == [
        ("u1", "train-0", at(-600)),
        ("u2", "train-0", at(-60)),
    ]


def test_a_pod_that_waits_for_a_node_is_on_none() -> None:
    (pod,) = read([observation([-60], "8")], [fact("kube_pod_info", node="")])

    assert (pod.node, pod.scheduled_at, pod.node_labels) == ("", None, {})


def test_a_pod_that_got_its_node_meanwhile_is_on_it() -> None:
    (pod,) = read([observation([-60])], [fact("kube_pod_info", node=""), *bound()])

    assert (pod.node, pod.scheduled_at) == ("n1", at(-3000))


def test_a_waiting_pod_does_not_take_the_node_of_the_exporter() -> None:
    waiting = who("u2", "waiting-0")

    pods = read(
        [observation([-60]), observation([-60], pod=waiting)],
        [*bound(), fact("kube_pod_info", pod=waiting, node="node-of-kube-state-metrics")],
    )

    assert pods[1].node == ""


def test_labels_of_the_target_do_not_hide_those_of_the_pod() -> None:
    clash = {
        "namespace": "monitoring",
        "pod": "kube-state-metrics-0",
        "node": "m1",
        "container": "kube-state-metrics",
        "exported_namespace": "team-nlp",
        "exported_pod": "train-0",
        "uid": "u1",
    }
    request = {**clash, "exported_container": "main", "resource": "nvidia_com_gpu"}

    (pod,) = read(
        [Series(REQUESTS, request, [NOW * 1000], ["1"])],
        [
            Fact("kube_pod_info", {**clash, "exported_node": "n1"}, "1"),
            Fact("kube_pod_status_scheduled_time", clash, str(NOW - 60)),
        ],
    )

    assert (pod.namespace, pod.name, pod.node) == ("team-nlp", "train-0", "n1")
    assert pod.requests[0].container == "main"


def test_requests_tell_ordinary_init_containers_from_sidecars() -> None:
    pod_observations = [
        observation([-60], "2", metric=INIT_REQUESTS, container="warmup"),
        observation([-60], "1", metric=INIT_REQUESTS, container="metrics"),
        observation([-60], "4", container="main"),
        observation([-60], "0", container="idle"),
    ]
    init_containers = [
        fact("kube_pod_init_container_info", container="metrics", restart_policy="Always"),
        fact("kube_pod_init_container_info", container="warmup"),
    ]

    (pod,) = read(pod_observations, [*bound(), *init_containers])

    assert pod.requests == (
        ContainerRequest("main", ContainerKind.REGULAR, "nvidia_com_gpu", 4),
        ContainerRequest("metrics", ContainerKind.SIDECAR, "nvidia_com_gpu", 1),
        ContainerRequest("warmup", ContainerKind.INIT, "nvidia_com_gpu", 2),
    )


def test_a_pod_that_asks_for_none_is_no_concern() -> None:
    assert read([observation([-60], "0")], []) == ()


def test_a_completion_time_counts_only_in_a_terminal_phase() -> None:
    completed = fact("kube_pod_completion_time", str(NOW - 600))
    still_running = fact("kube_pod_status_phase", "0", phase="Succeeded")

    (running,) = read([observation([-660, -60])], [*bound(), completed, still_running])
    (ended,) = read([observation([-660, -60])], [*bound(), completed, failed()])

    assert (running.finished_at, running.terminal_seen_at) == (None, None)
    assert (ended.finished_at, ended.terminal_seen_at) == (at(-600), at(-60))


def test_of_two_completion_times_the_later_one_counts() -> None:
    copies = [
        fact("kube_pod_completion_time", str(NOW - 900)),
        fact("kube_pod_completion_time", f"{NOW - 600}e+00"),
    ]

    (pod,) = read([observation([-60])], [*bound(), *copies, failed()])

    assert pod.finished_at == at(-600)


def test_a_copy_that_missed_the_end_does_not_undo_it() -> None:
    copies = [failed(), fact("kube_pod_status_phase", "0", phase="Failed", instance="old")]

    (pod,) = read(
        [observation([-60])], [*bound(), *copies, fact("kube_pod_completion_time", str(NOW))]
    )

    assert pod.finished_at == at(0)


def test_an_end_by_a_clock_that_runs_ahead_is_seen_at_the_last_observation() -> None:
    completed = fact("kube_pod_completion_time", str(NOW + 5))

    (pod,) = read([observation([-120, -60])], [*bound(), completed, failed()])

    assert pod.terminal_seen_at == at(-60)


def test_an_end_that_is_not_reported_is_seen_first_in_raw_samples() -> None:
    phases = [
        Series(
            "kube_pod_status_phase",
            {**who(), "phase": "Failed", "instance": copy},
            [(NOW - offset) * 1000 for offset in offsets],
            values,
        )
        for copy, offsets, values in (
            ("a", [180, 120, 60], ["0", "0", "1"]),
            ("b", [150, 90, 30], ["0", "1", "1"]),
            ("c", [150], ["0"]),
        )
    ]

    (pod,) = read([observation([-180, -30])], [*bound(), failed()], phases)

    assert (pod.finished_at, pod.terminal_seen_at) == (None, at(-90))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (bound(), ()),
        ([*bound(), failed()], ("kube_pod_status_phase",)),
        ([*bound(), failed(), fact("kube_pod_completion_time", str(NOW))], ()),
        (
            [fact("kube_pod_labels", label_user="a"), fact("kube_pod_labels", label_user="b")],
            ("kube_pod_labels",),
        ),
        ([failed(pod=who("somebody-else"))], ()),
    ],
    ids=["running", "ended, untold", "ended, told", "two owners", "no pod of ours"],
)
def test_only_doubts_about_our_pods_are_asked_about(
    facts: list[Fact], expected: tuple[str, ...]
) -> None:
    reported = read_facts(facts, NAMES, user_label="user", within=WITHIN)

    assert questions({"u1": None}, reported) == expected


def test_the_owner_is_the_value_of_the_user_label() -> None:
    (pod,) = read([observation([-60])], [*bound(), fact("kube_pod_labels", label_user="alice")])

    assert pod.owner == "alice"


def test_a_pod_relabelled_later_stays_with_its_first_owner() -> None:
    labels = [fact("kube_pod_labels", label_user=owner) for owner in ("bob", "alice")]
    details = [
        Series("kube_pod_labels", {**who(), "label_user": owner}, [(NOW + offset) * 1000], ["1"])
        for owner, offset in (("bob", -60), ("alice", -120))
    ]

    (pod,) = read([observation([-60])], [*bound(), *labels], details)

    assert pod.owner == "alice"


def test_an_older_exporter_without_priority_classes_disagrees_with_nobody() -> None:
    (pod,) = read([observation([-60])], [*bound(), fact("kube_pod_info", node="n1")])

    assert pod.priority_class == "gpu-standard"


def test_two_priority_classes_are_a_defect_of_their_pod() -> None:
    other = fact("kube_pod_info", node="n1", priority_class="gpu-low")

    (pod,) = read([observation([-60])], [*bound(), other])

    assert pod.defects == ("Its series disagree about its priority class: gpu-low, gpu-standard.",)


@pytest.mark.parametrize(("missing", "is_refused"), [(1, False), (2, False), (3, True)])
def test_an_answer_that_says_nothing_of_most_pods_is_refused(
    missing: int, *, is_refused: bool
) -> None:
    pods = [who(f"u{number}") for number in range(4)]
    facts = [row for pod in pods[missing:] for row in bound(pod)]

    if is_refused:
        with pytest.raises(SourceUnavailableError) as refusal:
            read([observation([-60], pod=pod) for pod in pods], facts)
        assert refusal.value.reason == "incomplete_answer"
    else:
        found = read([observation([-60], pod=pod) for pod in pods], facts)
        assert [pod.is_end_known for pod in found] == [False] * missing + [True] * (4 - missing)


def test_one_bound_pod_whose_time_is_not_reported_does_not_stop_the_others() -> None:
    static = who("u2", "static-0")

    pods = read(
        [observation([-60]), observation([-60], pod=static)],
        [*bound(), fact("kube_pod_info", pod=static, node="n1")],
    )

    assert [pod.scheduled_at for pod in pods] == [at(-3000), None]


def test_a_history_of_nothing_shows_nothing() -> None:
    assert read_history((), user_label="user") == PodHistory({}, {})
