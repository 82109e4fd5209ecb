"""Lists in pages and by selectors; watches that miss nothing between a list and now."""

import threading
from typing import Any

import pytest
from kubernetes import watch

from tests.contract.kubernetes.conftest import Answer, Core, pod_body, refusal, status_body


def labelled(name: str, **labels: str) -> dict[str, Any]:
    body = pod_body(name)
    body["metadata"]["labels"] = labels
    return body


@pytest.fixture
def five(core: Core, namespace: str) -> str:
    for name, labels in (
        ("a", {"tier": "gold", "app": "llm"}),
        ("b", {"tier": "gold"}),
        ("c", {"tier": "silver", "app": "llm"}),
        ("d", {"app": "vision"}),
        ("e", {}),
    ):
        core.create_namespaced_pod(namespace, labelled(name, **labels))
    return namespace


def names(pods: Answer) -> list[str]:
    return [pod.metadata.name for pod in pods.items]


def token_of(pods: Answer) -> str:
    """Return where the next page begins; the client hides it behind an underscore."""
    return getattr(pods.metadata, "_continue") or ""  # noqa: B009 - See above.


def test_a_list_says_its_version_and_is_in_order(core: Core, five: str) -> None:
    found = core.list_namespaced_pod(five)

    assert names(found) == ["a", "b", "c", "d", "e"]
    assert int(found.metadata.resource_version) >= max(
        int(pod.metadata.resource_version) for pod in found.items
    )


def test_pages_together_are_the_list_as_it_was_at_first(core: Core, five: str) -> None:
    first = core.list_namespaced_pod(five, limit=2)
    core.create_namespaced_pod(five, pod_body("cc"))
    core.delete_namespaced_pod("e", five)

    second = core.list_namespaced_pod(five, limit=2, _continue=token_of(first))
    third = core.list_namespaced_pod(five, limit=2, _continue=token_of(second))

    assert names(first) + names(second) + names(third) == ["a", "b", "c", "d", "e"]
    assert first.metadata.remaining_item_count == 3
    assert not token_of(third)
    assert third.metadata.resource_version == first.metadata.resource_version


def test_a_page_token_that_is_none_is_refused(core: Core, five: str) -> None:
    error = refusal(lambda: core.list_namespaced_pod(five, limit=2, _continue="none"))

    assert error.status == 400


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("tier=gold", ["a", "b"]),
        ("tier==gold,app=llm", ["a"]),
        ("tier!=gold", ["c", "d", "e"]),
        ("tier in (gold,silver)", ["a", "b", "c"]),
        ("tier notin (gold,silver)", ["d", "e"]),
        ("app", ["a", "c", "d"]),
        ("!app", ["b", "e"]),
        ("tier in (gold,silver),!app", ["b"]),
    ],
)
def test_labels_select(core: Core, five: str, selector: str, expected: list[str]) -> None:
    assert names(core.list_namespaced_pod(five, label_selector=selector)) == expected


@pytest.mark.parametrize("selector", ["tier in gold", "=gold", "a b"])
def test_a_label_selector_that_is_none_is_refused(core: Core, five: str, selector: str) -> None:
    assert refusal(lambda: core.list_namespaced_pod(five, label_selector=selector)).status == 400


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=c", ["c"]),
        ("metadata.name!=c", ["a", "b", "d", "e"]),
        ("status.phase=Pending", ["a", "b", "c", "d", "e"]),
        ("status.phase=Running", []),
        ("spec.nodeName=", ["a", "b", "c", "d", "e"]),
    ],
)
def test_fields_select(core: Core, five: str, selector: str, expected: list[str]) -> None:
    assert names(core.list_namespaced_pod(five, field_selector=selector)) == expected


def test_a_field_that_cannot_be_asked_is_refused(core: Core, five: str) -> None:
    error = refusal(lambda: core.list_namespaced_pod(five, field_selector="spec.hostname=x"))

    assert error.status == 400
    assert "field label not supported" in status_body(error)["message"]


def test_a_list_of_all_namespaces_has_what_each_has(core: Core, five: str) -> None:
    everywhere = core.list_pod_for_all_namespaces()

    assert {(five, name) for name in "abcde"} <= {
        (pod.metadata.namespace, pod.metadata.name) for pod in everywhere.items
    }


def test_deleting_a_collection_obeys_its_selector(core: Core, five: str) -> None:
    core.delete_collection_namespaced_pod(five, label_selector="tier=gold")

    assert names(core.list_namespaced_pod(five)) == ["c", "d", "e"]


def watcher() -> Any:  # noqa: ANN401 - The client does not type its watch.
    return watch.Watch()  # type: ignore[no-untyped-call]


def happenings(core: Core, namespace: str, **options: object) -> list[tuple[str, str]]:
    events = watcher().stream(core.list_namespaced_pod, namespace, timeout_seconds=1, **options)
    return [(event["type"], event["object"].metadata.name) for event in events]


def test_a_watch_from_a_list_shows_everything_since_in_order(core: Core, five: str) -> None:
    version = core.list_namespaced_pod(five).metadata.resource_version
    core.create_namespaced_pod(five, pod_body("f"))
    core.patch_namespaced_pod("f", five, {"metadata": {"labels": {"x": "y"}}})
    core.delete_namespaced_pod("f", five)

    reported = happenings(core, five, resource_version=version)

    assert reported == [("ADDED", "f"), ("MODIFIED", "f"), ("MODIFIED", "f"), ("DELETED", "f")]


def test_a_watch_without_a_version_begins_with_what_is_there(core: Core, five: str) -> None:
    assert sorted(happenings(core, five)) == [("ADDED", name) for name in "abcde"]


def test_a_watch_shows_what_happens_while_it_is_open(core: Core, five: str) -> None:
    version = core.list_namespaced_pod(five).metadata.resource_version
    later = threading.Timer(0.2, lambda: core.create_namespaced_pod(five, pod_body("late")))
    later.start()

    reported = happenings(core, five, resource_version=version)

    later.join()
    assert reported == [("ADDED", "late")]


def test_an_object_that_stops_fitting_is_deleted_for_the_watcher(core: Core, five: str) -> None:
    version = core.list_namespaced_pod(five).metadata.resource_version
    core.patch_namespaced_pod("a", five, {"metadata": {"labels": {"tier": "silver"}}})
    core.patch_namespaced_pod("d", five, {"metadata": {"labels": {"tier": "gold"}}})

    reported = happenings(core, five, resource_version=version, label_selector="tier=gold")

    assert reported == [("DELETED", "a"), ("ADDED", "d")]


def test_a_deletion_carries_the_version_of_its_own(core: Core, five: str) -> None:
    before = core.list_namespaced_pod(five)
    core.delete_namespaced_pod("a", five)

    events = list(
        watcher().stream(
            core.list_namespaced_pod,
            five,
            resource_version=before.metadata.resource_version,
            timeout_seconds=1,
        )
    )

    last = events[-1]["object"]
    assert events[-1]["type"] == "DELETED"
    assert int(last.metadata.resource_version) > int(before.metadata.resource_version)
    assert last.status.phase == "Pending"


def test_a_watch_in_one_namespace_is_silent_about_others(core: Core, five: str) -> None:
    version = core.list_namespaced_pod(five).metadata.resource_version
    core.create_namespaced_resource_quota(
        five, {"metadata": {"name": "noise"}, "spec": {"hard": {"pods": "99"}}}
    )

    assert happenings(core, five, resource_version=version) == []
