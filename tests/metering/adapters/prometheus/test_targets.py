"""Targets: what of a cluster's row may reach a query, and what never does."""

import pytest

from tenants.domain.errors import SourceUnavailableError
from tests.metering.adapters.prometheus.canned import (
    KSM,
    facts_of,
    last,
    observe,
    raw,
    request,
    sound_world,
    up,
)


def test_words_of_tenants_never_reach_a_query() -> None:
    world = sound_world()
    evil = 'b"} or up{namespace=~".*'
    pod = {"namespace": evil, "pod": evil, "uid": evil, **KSM}
    world.sights = [up(), request(pod, node=evil)]
    world.facts = [
        *facts_of(pod, node=evil),
        last("kube_node_labels", {"node": evil, **KSM, "label_a": evil}),
        last("kube_pod_status_phase", {**pod, "phase": "Failed"}),
    ]
    world.details = [raw("kube_pod_status_phase", {**pod, "phase": "Failed"})]

    observation = observe(world, user_label=evil, slug=evil)

    assert observation.pods[0].namespace == evil
    assert len(world.asked) == 6
    assert not any("or up" in one["query"] for one in world.asked)


@pytest.mark.parametrize(
    "target",
    [
        {"selector_label": "cluster", "selector_value": 'a"} or up{a="'},
        {"selector_label": "cluster", "selector_value": "a\\"},
        {"selector_label": "cluster", "selector_value": "a\n"},
        {"selector_label": "cluster", "selector_value": ""},
        {"selector_label": "", "selector_value": "a"},
        {"selector_label": 'a="b",c', "selector_value": "a"},
        {"selector_label": "__name__", "selector_value": "up"},
        {"metric_aliases": {"up": ['up"} or x{a="']}},
        {"metric_aliases": {"up": []}},
        {"metric_aliases": {"up": "up"}},
        {"metric_aliases": {"up": ["kube_pod_info"]}},
        {"prometheus_url": "file:///etc/passwd"},
        {"prometheus_url": "http://user:word@127.0.0.1"},
        {"prometheus_url": "http://127.0.0.1/?a=b"},
        {"prometheus_url": ""},
        {"prometheus_url": "http://[::1"},
        {"prometheus_url": "http://127.0.0.1:99999"},
        {"prometheus_url": "http://.example.com"},
    ],
    ids=str,
)
def test_a_target_that_cannot_be_asked_safely_is_not_asked(target: dict[str, object]) -> None:
    world = sound_world()

    with pytest.raises(SourceUnavailableError) as refusal:
        observe(world, **target)

    assert refusal.value.reason == "bad_target"
    assert world.asked == []
