"""What is asked of an API server, and what becomes of sound answers."""

import json
import socket
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from metering.adapters.kubernetes import KubernetesClusterWatch, lines, session
from metering.domain.catalogue.names import CLASS_PREFIX
from metering.protocols.watch import (
    Change,
    NodeState,
    PodState,
    WatchedKind,
    WatchEvent,
    WatchTarget,
)
from simulator.kubernetes_api import write_kubeconfig
from simulator.kubernetes_api.access import make_identity
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.allocations.kubernetes import (
    NOW,
    Answer,
    Reported,
    bookmark,
    event,
    make_watch,
    page,
    pod,
)
from tests.support.references import reference_to

PODS, NODES, CLAIMS = WatchedKind.PODS, WatchedKind.NODES, WatchedKind.CLAIMS
PLAIN = pod("uid-9", version="12", containers=[{"name": "web"}])


def resources(*names: str) -> Answer:
    document = {"kind": "APIResourceList", "resources": [{"name": name} for name in names]}
    return Answer((json.dumps(document).encode(),))


def test_a_list_asks_for_a_consistent_one_and_goes_on_page_by_page(reported: Reported) -> None:
    reported.answers = [page(pod("uid-1"), PLAIN, token="t1"), page(pod("uid-2")), page()]

    pages = list(make_watch(page_objects=2).list(reported.target(), PODS))

    assert [[state.uid for state in one.states] for one in pages] == [["uid-1"], ["uid-2"]]
    assert [one.resource_version for one in pages] == ["50", "50"]
    assert reported.asked == [
        ("/api/v1/pods", {"limit": "2"}, "Bearer sesame"),
        ("/api/v1/pods", {"limit": "2", "continue": "t1"}, "Bearer sesame"),
    ]


def test_an_empty_list_is_one_page_with_its_version(reported: Reported) -> None:
    reported.answers = [page()]

    (only,) = make_watch().list(reported.target(), PODS)

    assert (only.states, only.resource_version) == ((), "50")


def test_a_watch_asks_from_a_version_with_bookmarks_and_for_so_long(reported: Reported) -> None:
    reported.answers = [Answer((event("ADDED", pod()), bookmark("60")))]

    events = list(
        make_watch().watch(reported.target(), PODS, resource_version="10", timeout_seconds=300)
    )

    assert [(one.change, one.resource_version) for one in events] == [
        (Change.BOOKMARK, "10"),
        (Change.ADDED, "11"),
        (Change.BOOKMARK, "60"),
    ]
    assert {one.received_at for one in events} == {NOW}
    asked = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "10",
        "timeoutSeconds": "300",
    }
    assert reported.asked == [("/api/v1/pods", asked, "Bearer sesame")]


def test_events_come_out_as_they_come_in_and_not_when_a_buffer_is_full(reported: Reported) -> None:
    reported.answers = [Answer((event("ADDED", pod()),), stalls=True)]

    stream = make_watch().watch(reported.target(), PODS, resource_version="10", timeout_seconds=60)

    assert [next(stream).change for _ in range(2)] == [Change.BOOKMARK, Change.ADDED]
    reported.release.set()
    reported.release.clear()


def test_two_lines_in_one_piece_and_one_line_in_three_are_three_events(reported: Reported) -> None:
    line = event("ADDED", pod())
    reported.answers = [Answer((line + line, line[:20], line[20:50], line[50:]))]

    events = list(
        make_watch().watch(reported.target(), PODS, resource_version="10", timeout_seconds=60)
    )

    assert [one.change for one in events[1:]] == [Change.ADDED] * 3


def test_a_pod_without_a_gpu_only_moves_the_version(reported: Reported) -> None:
    reported.answers = [Answer((event("DELETED", PLAIN),))]

    events = list(
        make_watch().watch(reported.target(), PODS, resource_version="10", timeout_seconds=60)
    )

    assert events[1] == WatchEvent(Change.BOOKMARK, "12", NOW, is_prompt=False)


def test_what_may_have_piled_up_is_reported_from_what_happens_now(
    reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = event("ADDED", pod("uid-1")), event("ADDED", pod("uid-2"))
    reported.answers = [Answer((first, second))]

    def prompt() -> list[bool]:
        stream = make_watch().watch(
            reported.target(), PODS, resource_version="10", timeout_seconds=60
        )
        return [one.is_prompt for one in stream][1:]

    at_once = prompt()
    monkeypatch.setattr(lines, "WAITED_SECONDS", 0)
    after_a_wait = prompt()
    monkeypatch.setattr(lines, "WAITED_SECONDS", 99)
    monkeypatch.setattr(lines, "PROMPT_AFTER_SECONDS", 0)
    after_a_while = prompt()
    monkeypatch.setattr(lines, "PROMPT_AFTER_SECONDS", 99)
    reported.answers = [Answer((first, bookmark(), second))]
    after_a_bookmark = prompt()

    assert after_a_bookmark == [False, True, True]
    assert at_once == [False, False]
    assert after_a_wait == [True, True]
    assert after_a_while == [True, True]


def test_a_deleted_pod_comes_with_its_last_state_however_old(reported: Reported) -> None:
    reported.answers = [Answer((event("DELETED", pod("uid-1", version="70", nodeName="node-1")),))]

    events = list(
        make_watch().watch(reported.target(), PODS, resource_version="10", timeout_seconds=60)
    )

    assert (events[1].change, events[1].resource_version) == (Change.DELETED, "70")
    assert isinstance(events[1].state, PodState)
    assert (events[1].state.node, events[1].state.phase) == ("node-1", "Pending")


def test_every_kind_is_asked_where_it_is_served(reported: Reported) -> None:
    reported.answers = [
        page(kind="NodeList"),
        page(kind="ResourceClaimList"),
        page(kind="ResourceSliceList"),
        page(kind="DeviceClassList"),
    ]

    for kind in (NODES, CLAIMS, WatchedKind.SLICES, WatchedKind.CLASSES):
        list(make_watch().list(reported.target(), kind))

    assert [path for path, _, _ in reported.asked] == [
        "/api/v1/nodes",
        "/apis/resource.k8s.io/v1/resourceclaims",
        "/apis/resource.k8s.io/v1/resourceslices",
        "/apis/resource.k8s.io/v1/deviceclasses",
    ]


def device_class(name: str, resource: str = "", second: int = 0) -> dict[str, Any]:
    return {
        "kind": "DeviceClass",
        "metadata": {
            "uid": f"uid-of-{name}",
            "name": name,
            "resourceVersion": "1",
            "creationTimestamp": f"2026-10-05T11:00:{second:02}Z",
        },
        "spec": {"extendedResourceName": resource} if resource else {},
    }


def pod_asking(resource: str, uid: str = "uid-1") -> dict[str, Any]:
    return pod(uid, containers=[{"name": "main", "resources": {"requests": {resource: "1"}}}])


def requested(watch: KubernetesClusterWatch, target: WatchTarget, reported: Reported) -> list[str]:
    reported.answers = [
        page(pod_asking("example.com/h100"), pod_asking("example.com/old", "uid-2"))
    ]
    (only,) = watch.list(target, PODS)
    states = [state for state in only.states if isinstance(state, PodState)]
    return [ask.resource for state in states for ask in state.requests]


def test_a_name_that_a_class_gives_to_its_devices_is_read_as_the_class(reported: Reported) -> None:
    watch = make_watch()
    target = replace(reported.target(), class_names={"old.example.com": "example.com/old"})
    assert requested(watch, target, reported) == [f"{CLASS_PREFIX}old.example.com"]

    reported.answers = [
        page(
            device_class("newer", "example.com/h100", 2),
            device_class("older", "example.com/h100", 1),
            device_class("nameless"),
            kind="DeviceClassList",
        )
    ]
    list(watch.list(target, WatchedKind.CLASSES))

    assert requested(watch, target, reported) == [
        f"{CLASS_PREFIX}newer",
        f"{CLASS_PREFIX}old.example.com",
    ]


def test_a_class_that_is_deleted_gives_no_name_any_more(reported: Reported) -> None:
    watch = make_watch()
    target = replace(reported.target(), class_names={"h100": "example.com/h100"})
    reported.answers = [Answer((event("DELETED", device_class("h100", "example.com/h100")),))]
    list(watch.watch(target, WatchedKind.CLASSES, resource_version="1", timeout_seconds=1))

    assert requested(watch, target, reported) == []


def test_a_pod_whose_resource_nobody_knows_is_read_once_a_claim_was_made_for_it(
    reported: Reported,
) -> None:
    unknown = pod_asking("example.com/unknown")
    unknown["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "train-x7k2p"}}
    reported.answers = [page(unknown, pod_asking("example.com/unknown", "uid-2"))]

    (only,) = make_watch().list(reported.target(), PODS)

    (state,) = only.states
    assert isinstance(state, PodState)
    assert (state.requests, state.extended_claim) == ((), "train-x7k2p")


def test_the_pattern_of_gpus_can_be_another_vendors(reported: Reported) -> None:
    node = {
        "metadata": {"uid": "n", "name": "node-1", "resourceVersion": "1"},
        "status": {"allocatable": {"nvidia.com/gpu": "8", "amd.com/gpu": "4"}},
    }
    reported.answers = [page(node, kind="NodeList")]

    watch = KubernetesClusterWatch(resources=r"amd\.com/gpu", clock=lambda: NOW)
    (only,) = watch.list(reported.target(), NODES)

    assert isinstance(only.states[0], NodeState)
    assert only.states[0].allocatable == {"amd.com/gpu": 4}


def test_a_pattern_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="resources is no pattern"):
        KubernetesClusterWatch(resources="(")


def test_what_a_server_serves_is_reported_by_its_discovery(reported: Reported) -> None:
    watch = make_watch()
    reported.answers = [resources("pods", "pods/status"), resources("nodes"), Answer(code=404)]

    assert watch.serves(reported.target(), PODS)
    assert not watch.serves(reported.target(), PODS)
    assert not watch.serves(reported.target(), CLAIMS)
    assert [path for path, _, _ in reported.asked] == [
        "/api/v1",
        "/api/v1",
        "/apis/resource.k8s.io/v1",
    ]


def test_a_server_that_refuses_to_tell_what_it_serves_is_no_no(reported: Reported) -> None:
    reported.answers = [Answer(code=403)]

    with pytest.raises(SourceUnavailableError) as refusal:
        make_watch().serves(reported.target(), CLAIMS)

    assert refusal.value.reason == "forbidden"


def test_a_rotated_token_is_read_again_with_the_next_question(
    reported: Reported, tmp_path: Path
) -> None:
    reported.answers = [Answer(code=401), page()]
    document = json.loads(reported.kubeconfig.read_text())
    url = document["clusters"][0]["cluster"]["server"]
    (tmp_path / "ca.crt").write_bytes((reported.kubeconfig.parent / "ca.pem").read_bytes())
    (tmp_path / "token").write_text("old")
    target = WatchTarget(
        "hopper",
        kubernetes_url=url,
        credential_reference=reference_to(tmp_path / "token", kind="file"),
    )

    with pytest.raises(SourceUnavailableError) as refusal:
        list(make_watch().list(target, PODS))
    (tmp_path / "token").write_text("new\n")
    list(make_watch().list(target, PODS))

    assert refusal.value.reason == "unauthorized"
    assert [token for _, _, token in reported.asked] == ["Bearer old", "Bearer new"]


@pytest.mark.parametrize("token", ["sesame\nopen", "sesame\u2603"])
def test_a_token_that_cannot_be_sent_is_not_shown(
    reported: Reported, tmp_path: Path, token: str
) -> None:
    reported.answers = [page()]
    document = json.loads(reported.kubeconfig.read_text())
    document["users"][0]["user"]["token"] = token
    (tmp_path / "kubeconfig").write_text(json.dumps(document))
    target = WatchTarget("hopper", "", reference_to(tmp_path / "kubeconfig"))

    with pytest.raises(SourceUnavailableError) as refusal:
        list(make_watch().list(target, PODS))

    assert refusal.value.reason == "credentials_missing"
    assert "sesame" not in f"{refusal.value} {refusal.value.__cause__}"
    assert reported.asked == []


def test_a_server_that_another_authority_vouches_for_is_not_believed(
    reported: Reported, tmp_path: Path
) -> None:
    reported.answers = [page()]
    stranger = make_identity(tmp_path)
    url = json.loads(reported.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    path = write_kubeconfig(
        tmp_path / "kubeconfig", url=url, authority_pem=stranger.authority_pem, token="sesame"
    )

    with pytest.raises(SourceUnavailableError) as refusal:
        list(make_watch().list(WatchTarget("hopper", "", reference_to(path)), PODS))

    assert refusal.value.reason == "tls_failed"
    assert reported.asked == []


def test_nobody_there_is_unreachable(tmp_path: Path) -> None:
    path = write_kubeconfig(
        tmp_path / "kubeconfig", url="http://127.0.0.1:1", authority_pem="", token="sesame"
    )

    with pytest.raises(SourceUnavailableError) as refusal:
        list(make_watch().list(WatchTarget("hopper", "", reference_to(path)), PODS))

    assert refusal.value.reason == "unreachable"


def test_an_address_that_accepts_no_connection_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "CONNECT_SECONDS_MAX", 0.2)
    with ExitStack() as opened:
        full = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(2):
            waiting = opened.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        path = write_kubeconfig(tmp_path / "kubeconfig", url=url, authority_pem="", token="sesame")

        with pytest.raises(SourceUnavailableError) as refusal:
            list(make_watch().list(WatchTarget("hopper", "", reference_to(path)), PODS))

    assert refusal.value.reason == "unreachable"


def test_credentials_that_are_not_there_are_a_refusal_too() -> None:
    with pytest.raises(SourceUnavailableError) as refusal:
        list(make_watch().list(WatchTarget("hopper", "", "kubeconfig:does/not/exist"), PODS))

    assert refusal.value.reason == "credentials_missing"
