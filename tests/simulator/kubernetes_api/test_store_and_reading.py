"""Versions, pages and watches, with etcd's forgetting played by hand."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from simulator.kubernetes_api.errors import StatusError
from simulator.kubernetes_api.reading import (
    PAGES_MAX,
    ListQuery,
    Reader,
    parse_query,
)
from simulator.kubernetes_api.resources import NODES, PODS
from simulator.kubernetes_api.store import ObjectStore


def put(store: ObjectStore, name: str, namespace: str = "ns", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return store.put(PODS, (namespace, name), {"metadata": metadata, "spec": {}})


def always() -> bool:
    return True


def watch(store: ObjectStore, **changes: object) -> Iterator[dict[str, Any]]:
    fields: dict[str, Any] = {"resource": PODS, "namespace": "ns", "timeout_seconds": 0, **changes}
    return Reader(store, bookmark_seconds=60).watch(ListQuery(**fields), always)


def test_every_write_is_a_version_of_its_own() -> None:
    store = ObjectStore()

    versions = [int(put(store, name)["metadata"]["resourceVersion"]) for name in "abc"]
    removed = store.remove(PODS, ("ns", "a"))

    assert versions == [2, 3, 4]
    assert removed["metadata"]["resourceVersion"] == "5"
    assert store.version == 5


def test_a_stored_object_is_not_the_callers() -> None:
    store = ObjectStore()
    mine: dict[str, Any] = {"metadata": {"name": "a", "namespace": "ns"}}

    store.put(PODS, ("ns", "a"), mine)

    assert "resourceVersion" not in mine["metadata"]


def test_events_after_a_version_are_reported_in_order() -> None:
    store = ObjectStore()
    put(store, "a")
    put(store, "b")
    store.remove(PODS, ("ns", "a"))

    reported = [
        (one.version, one.before is None, one.after is None) for one in store.events_after(2)
    ]

    assert reported == [(3, True, False), (4, False, True)]


def test_what_is_compacted_is_gone() -> None:
    store = ObjectStore()
    put(store, "a")
    store.compact()

    assert store.oldest() == 2
    assert list(store.events_after(0)) == []


def test_a_full_history_forgets_its_oldest() -> None:
    store = ObjectStore(history_max=3)
    for name in "abcde":
        put(store, name)

    assert store.oldest() == 3
    assert [event.version for event in store.events_after(store.oldest())] == [4, 5, 6]


def test_waiting_ends_with_a_write() -> None:
    store = ObjectStore()
    later = threading.Timer(0.05, lambda: put(store, "a"))
    later.start()

    store.wait(1, timeout_seconds=5)

    assert store.version == 2
    later.join()


def test_a_watch_from_the_oldest_goes_on() -> None:
    store = ObjectStore()
    put(store, "a")
    store.compact()
    put(store, "b")

    reported = list(watch(store, version=2, timeout_seconds=1))

    assert [(one["type"], one["object"]["metadata"]["name"]) for one in reported] == [
        ("ADDED", "b")
    ]


def test_bookmarks_come_while_nothing_happens() -> None:
    store = ObjectStore()
    put(store, "a", namespace="other")
    query = ListQuery(PODS, "ns", version=1, timeout_seconds=1, has_bookmarks=True)

    reported = list(Reader(store, bookmark_seconds=0.3).watch(query, always))

    assert {one["type"] for one in reported} == {"BOOKMARK"}
    assert len(reported) >= 3
    assert reported[0]["object"]["metadata"]["resourceVersion"] == "2"
    assert reported[0]["object"]["kind"] == "Pod"


def test_a_watch_ends_when_the_server_stops() -> None:
    store = ObjectStore()
    query = ListQuery(PODS, "ns", version=1, timeout_seconds=600)

    assert list(Reader(store).watch(query, lambda: False)) == []


def test_a_version_that_is_no_number_is_a_bad_request() -> None:
    with pytest.raises(StatusError) as caught:
        parse_query(PODS, "ns", {"resourceVersion": "latest"})

    assert caught.value.code == 400


def test_only_so_many_lists_are_remembered() -> None:
    store = ObjectStore()
    reader = Reader(store)
    tokens = []
    for number in range(PAGES_MAX + 5):
        put(store, f"pod-{number:03d}")
        put(store, f"pod-{number:03d}-b")
        tokens.append(reader.page(ListQuery(PODS, "ns", limit=1))["metadata"]["continue"])

    with pytest.raises(StatusError):
        reader.page(ListQuery(PODS, "ns", limit=1, token=tokens[0]))
    assert reader.page(ListQuery(PODS, "ns", limit=1, token=tokens[-1]))["items"]


@pytest.mark.parametrize("token", ["x", "e30", "eyJydiI6ICJ4In0"])
def test_a_token_that_is_none_is_a_bad_request(token: str) -> None:
    with pytest.raises(StatusError) as caught:
        Reader(ObjectStore()).page(ListQuery(PODS, "ns", token=token))

    assert caught.value.code == 400


def test_items_of_a_list_have_no_kind_of_their_own() -> None:
    store = ObjectStore()
    put(store, "a")

    page = Reader(store).page(ListQuery(PODS, "ns"))

    assert (page["kind"], page["apiVersion"]) == ("PodList", "v1")
    assert "kind" not in page["items"][0]


def test_a_query_is_read_from_a_query() -> None:
    query = {
        "labelSelector": "a",
        "fieldSelector": "metadata.name=b",
        "limit": "5",
        "resourceVersion": "7",
        "timeoutSeconds": "9",
        "allowWatchBookmarks": "true",
    }

    assert parse_query(NODES, "", query) == ListQuery(
        NODES, "", "a", "metadata.name=b", 5, "", 7, 9, has_bookmarks=True
    )


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds"])
def test_a_number_that_is_none_is_a_bad_request(name: str) -> None:
    with pytest.raises(StatusError) as caught:
        parse_query(NODES, "", {name: "many"})

    assert caught.value.code == 400


def test_a_filtered_page_shows_no_remainder() -> None:
    store = ObjectStore()
    for name in "abc":
        put(store, name, tier="gold")

    page = Reader(store).page(ListQuery(PODS, "ns", labels="tier=gold", limit=1))

    assert "remainingItemCount" not in page["metadata"]
    assert page["metadata"]["continue"]
