"""Options of lists and watches that the server refuses rather than misunderstands."""

import pytest

from simulator.kubernetes_api import KubernetesAPI
from tests.contract.kubernetes.wire import Wire

NODES = "/api/v1/nodes"


@pytest.mark.parametrize("watch", ["true", "false"])
def test_initial_events_are_refused_as_by_a_server_without_that_feature(
    wire: Wire, watch: str
) -> None:
    refused = wire.get(NODES, watch=watch, sendInitialEvents="true")

    assert refused.code == 422
    assert refused.body["details"]["causes"][0]["field"] == "sendInitialEvents"


def test_how_a_version_is_meant_is_no_matter_of_watches(wire: Wire) -> None:
    refused = wire.get(NODES, watch="true", resourceVersionMatch="Exact", resourceVersion="5")

    assert refused.code == 422
    assert refused.body["details"]["causes"][0]["field"] == "resourceVersionMatch"


def test_a_version_yet_to_come_may_be_asked_for_again_soon(wire: Wire) -> None:
    refused = wire.get(NODES, resourceVersion=10**9)

    assert (refused.code, refused.headers["Retry-After"]) == (504, "1")


def test_bookmarks_come_as_often_as_was_set(api: KubernetesAPI, wire: Wire) -> None:
    version = str(api.store.version)

    events = list(wire.watch(NODES, resourceVersion=version, allowWatchBookmarks="true"))

    assert len(events) >= 3
    assert {one["type"] for one in events} == {"BOOKMARK"}
    assert all(int(one["object"]["metadata"]["resourceVersion"]) >= int(version) for one in events)
