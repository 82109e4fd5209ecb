"""Targets: what of a cluster's row may reach a query, and what never does."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metering.adapters.prometheus import PrometheusUsageSource
from metering.protocols import ClusterTarget, Observation
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.prometheus import (
    HOUR,
    KSM,
    World,
    facts_of,
    last,
    observe,
    raw,
    request,
    serving,
    sound_world,
    target_of,
    up,
)

SOURCE = PrometheusUsageSource()
EVIL = st.one_of(
    st.sampled_from(
        [
            'b"} or up{a=~".*',
            "a\\",
            "a\n} or up",
            "{}[]()",
            '\\"',
            "\u2028",
            "é漢😀",
            "a'b`c",
            "${x}",
        ]
    ),
    st.text(
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=9
    ),
)


def asked_of(world: World, target: ClusterTarget) -> tuple[list[str], Observation]:
    """Return the queries that a target costs, and what came of them."""
    world.asked.clear()
    observation = SOURCE.observe(
        target, start_at=HOUR, end_at=HOUR + timedelta(hours=1), as_of=HOUR + timedelta(hours=2)
    )
    return [one["query"] for one in world.asked], observation


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[World, str]]:
    """Serve one world for all examples; each puts its own answers into it."""
    world = World()
    with serving(world) as url:
        yield world, url


def evil_world(namespace: str, name: str, node: str, owner: str) -> World:
    """Return a world whose words are whatever somebody called their things."""
    pod = {"namespace": namespace, "pod": name, "uid": name, **KSM}
    world = sound_world()
    world.observations = [up(), request(pod, node=node, container=owner)]
    world.facts = [
        *facts_of(pod, node=node),
        last("kube_pod_labels", {**pod, "label_user": owner}),
        last("kube_node_labels", {"node": node, **KSM, "label_a": owner}),
        last("kube_pod_status_phase", {**pod, "phase": "Failed"}),
    ]
    world.details = [raw("kube_pod_status_phase", {**pod, "phase": "Failed"})]
    return world


@settings(max_examples=30, deadline=None)
@given(EVIL, EVIL, EVIL, EVIL)
def test_queries_do_not_depend_on_what_anything_is_called(
    served: tuple[World, str], namespace: str, name: str, node: str, owner: str
) -> None:
    world, url = served
    target = target_of(url, user_label="user", slug=owner)
    vars(world).update(vars(evil_world("team-nlp", "llm-train-0", "gpu-h100-01", "alice")))
    harmless, _ = asked_of(world, target)

    vars(world).update(vars(evil_world(namespace, name, node, owner)))
    asked, observation = asked_of(world, target)

    assert asked == harmless
    (pod,) = observation.pods
    assert (pod.namespace, pod.name, pod.node, pod.owner) == (namespace, name, node, owner)


@settings(max_examples=30, deadline=None)
@given(EVIL, EVIL, EVIL)
def test_a_target_fills_one_matcher_or_is_not_asked(
    served: tuple[World, str], label: str, value: str, alias: str
) -> None:
    world, url = served
    vars(world).update(vars(sound_world()))
    plain, _ = asked_of(world, target_of(url))
    target = target_of(
        url,
        selector_label=label,
        selector_value=value,
        metric_aliases={"kube_pod_labels": (alias,)},
    )

    try:
        asked, _ = asked_of(world, target)
    except SourceUnavailableError as refusal:
        assert refusal.reason == "bad_target"  # noqa: PT017 - Either outcome is right.
        assert world.asked == []
    else:
        stripped = [query.replace(f',{label}="{value}"', "") for query in asked]
        doubled = f"|{alias}|kube_pod_labels|"
        assert [one.replace(doubled, "|kube_pod_labels|") for one in stripped] == plain


def test_words_of_tenants_never_reach_a_query() -> None:
    world = sound_world()
    evil = 'b"} or up{namespace=~".*'
    pod = {"namespace": evil, "pod": evil, "uid": evil, **KSM}
    world.observations = [up(), request(pod, node=evil)]
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
