"""What keeps a watcher right for days: versions to go on from, bookmarks, and 410."""

from typing import Any

from tests.contract.kubernetes.conftest import KUBECONFIG, Core, pod_body
from tests.support.kubernetes.wire import Body, Wire

EVER = 2**62
BOOKMARK_SECONDS = 1


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def version_of(wire: Wire, namespace: str) -> str:
    found: str = wire.get(pods(namespace)).body["metadata"]["resourceVersion"]
    return found


def reported(events: list[Body]) -> list[tuple[str, str]]:
    return [(one["type"], one["object"]["metadata"]["name"]) for one in events]


def test_a_watch_goes_on_from_the_last_event_and_misses_nothing(
    core: Core, wire: Wire, namespace: str
) -> None:
    version = version_of(wire, namespace)
    core.create_namespaced_pod(namespace, pod_body("a"))
    (first,) = wire.watch(pods(namespace), resourceVersion=version)
    core.create_namespaced_pod(namespace, pod_body("b"))
    core.create_namespaced_pod(namespace, pod_body("c"))

    last = first["object"]["metadata"]["resourceVersion"]
    again = list(wire.watch(pods(namespace), resourceVersion=last))

    assert reported([first]) == [("ADDED", "a")]
    assert reported(again) == [("ADDED", "b"), ("ADDED", "c")]


def test_the_version_of_a_list_is_where_its_watch_begins(
    core: Core, wire: Wire, namespace: str
) -> None:
    core.create_namespaced_pod(namespace, pod_body("a"))
    version = version_of(wire, namespace)
    core.patch_namespaced_pod("a", namespace, {"metadata": {"labels": {"x": "y"}}})

    assert reported(list(wire.watch(pods(namespace), resourceVersion=version))) == [
        ("MODIFIED", "a")
    ]


def test_versions_grow_with_every_event(core: Core, wire: Wire, namespace: str) -> None:
    version = version_of(wire, namespace)
    for name in ("a", "b", "c"):
        core.create_namespaced_pod(namespace, pod_body(name))

    events = list(wire.watch(pods(namespace), resourceVersion=version))

    versions = [int(one["object"]["metadata"]["resourceVersion"]) for one in events]
    assert versions == sorted(set(versions))
    assert versions[0] > int(version)


def test_a_bookmark_is_a_version_to_go_on_from(core: Core, wire: Wire, namespace: str) -> None:
    version = version_of(wire, namespace)
    core.create_namespaced_pod(namespace, pod_body("a"))

    events = list(
        wire.watch(
            pods(namespace),
            seconds=BOOKMARK_SECONDS,
            resourceVersion=version,
            allowWatchBookmarks="true",
        )
    )

    bookmarks = [one["object"] for one in events if one["type"] == "BOOKMARK"]
    assert reported(events[:1]) == [("ADDED", "a")]
    # No server promises a bookmark; those that come must be right.
    for bookmark in bookmarks:
        assert bookmark["kind"] == "Pod"
        assert "spec" not in bookmark or not bookmark["spec"].get("nodeName")
        at = bookmark["metadata"]["resourceVersion"]
        assert int(at) >= int(events[0]["object"]["metadata"]["resourceVersion"])
    if bookmarks:
        at = bookmarks[-1]["metadata"]["resourceVersion"]
        core.create_namespaced_pod(namespace, pod_body("b"))
        assert reported(list(wire.watch(pods(namespace), resourceVersion=at))) == [("ADDED", "b")]


def test_nobody_gets_bookmarks_who_did_not_ask(core: Core, wire: Wire, namespace: str) -> None:
    version = version_of(wire, namespace)
    core.create_namespaced_pod(namespace, pod_body("a"))

    events = wire.watch(pods(namespace), seconds=1, resourceVersion=version)

    assert [one["type"] for one in events] == ["ADDED"]


def test_a_watch_from_before_everything_known_has_expired(
    core: Core, wire: Wire, namespace: str
) -> None:
    core.create_namespaced_pod(namespace, pod_body("a"))

    (event,) = wire.watch(pods(namespace), resourceVersion="1")

    if KUBECONFIG and event["type"] == "ADDED":
        # A server that was never started again has purged nothing, and shows all.
        assert reported([event]) == [("ADDED", "a")]
        return
    assert event["type"] == "ERROR"
    status: dict[str, Any] = event["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


def test_a_list_of_a_version_yet_to_come_is_refused_and_may_be_tried_again(
    wire: Wire, namespace: str
) -> None:
    refused = wire.get(
        pods(namespace), resourceVersion=EVER, resourceVersionMatch="NotOlderThan", limit=1
    )

    assert (refused.code, refused.body["reason"]) == (504, "Timeout")
    (cause,) = refused.body["details"]["causes"]
    assert cause["reason"] == "ResourceVersionTooLarge"


def test_how_a_version_is_meant_is_said_with_a_version(wire: Wire, namespace: str) -> None:
    refused = wire.get(pods(namespace), resourceVersionMatch="Exact")

    assert (refused.code, refused.body["reason"]) == (422, "Invalid")
    assert "resourceVersionMatch" in refused.message


def test_a_list_in_pages_carries_no_more_than_was_asked_and_says_what_is_left(
    core: Core, wire: Wire, namespace: str
) -> None:
    for number in range(5):
        core.create_namespaced_pod(namespace, pod_body(f"pod-{number}"))

    seen: list[str] = []
    left: list[int] = []
    token = ""
    for _ in range(3):
        page = wire.get(pods(namespace), limit=2, **{"continue": token}).body
        seen += [one["metadata"]["name"] for one in page["items"]]
        left.append(page["metadata"].get("remainingItemCount", 0))
        token = page["metadata"].get("continue", "")

    assert seen == [f"pod-{number}" for number in range(5)]
    assert left == [3, 1, 0]
    assert token == ""


def test_a_watch_over_all_namespaces_shows_of_this_one(
    core: Core, wire: Wire, namespace: str
) -> None:
    version = version_of(wire, namespace)
    core.create_namespaced_pod(namespace, pod_body("a"))

    events = wire.watch("/api/v1/pods", resourceVersion=version)

    ours = [one for one in events if one["object"]["metadata"]["namespace"] == namespace]
    assert reported(ours) == [("ADDED", "a")]
    assert ours[0]["object"]["kind"] == "Pod"
    assert ours[0]["object"]["apiVersion"] == "v1"


def test_a_watch_ends_in_good_order_when_its_time_is_over(wire: Wire, namespace: str) -> None:
    version = version_of(wire, namespace)

    assert list(wire.watch(pods(namespace), resourceVersion=version)) == []
