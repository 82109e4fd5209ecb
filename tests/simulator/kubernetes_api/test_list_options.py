"""Options of lists and watches that the server refuses rather than misunderstands."""

import pytest

from tests.support.kubernetes.wire import Wire

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
