"""Sound answers with one thing damaged at random: refused or read, never anything else."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metering.adapters.prometheus import PrometheusUsageSource
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.prometheus import (
    ASKED_AFTER,
    END,
    FIRST,
    Reply,
    World,
    answer,
    facts_of,
    identity,
    last,
    raw,
    serving,
    sound_world,
    target_of,
)

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["NaN", "+Inf", "-1", "0", "1", "1e999", "sNaN", str(END), str(FIRST)]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)
SOURCE = PrometheusUsageSource()
REASONS = {
    "bad_answer",
    "bad_sample",
    "incomplete_answer",
    "no_coverage_clock",
    "partial_response",
    "query_failed",
    "truncated",
    "wrong_result_type",
}


def full_world() -> World:
    """Return a sound world in which every query is asked."""
    world, pod = sound_world(), identity()
    phase = {**pod, "phase": "Failed"}
    assert isinstance(world.facts, list)
    world.facts += [
        *facts_of(pod),
        last("kube_pod_labels", {**pod, "label_user": "alice"}),
        last("kube_pod_status_phase", phase),
    ]
    world.exporters = [
        last("up", {"pod": "exporter", "namespace": "gpu-operator", "job": "d", "instance": "e"}),
    ]
    world.details = [raw("kube_pod_status_phase", phase)]
    for rows in (world.observations, world.devices, world.details):
        assert isinstance(rows, list)
        for row in rows:
            row["values"] = row["values"][:3] + row["values"][-2:]
    return world


def places(payload: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - JSON.
    """Yield the path to every value in a JSON document."""
    if path:
        yield path
    if isinstance(payload, dict):
        inside: list[tuple[Any, Any]] = list(payload.items())
    else:
        inside = list(enumerate(payload)) if isinstance(payload, list) else []
    for key, value in inside:
        yield from places(value, (*path, key))


def damaged(payload: Any, path: tuple[Any, ...], junk: Any) -> Any:  # noqa: ANN401 - JSON.
    """Return a copy with one value replaced."""
    result = copy.deepcopy(payload)
    place = result
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = junk
    return result


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[World, str]]:
    """Serve one world for all examples; each puts its own answers into it."""
    world = World()
    with serving(world) as url:
        yield world, url


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_answer_is_refused_or_read(
    served: tuple[World, str], data: st.DataObject
) -> None:
    world, url = served
    sound = full_world()
    kind = data.draw(st.sampled_from(["observations", "facts", "exporters", "devices", "details"]))
    whole = answer(getattr(sound, kind), "vector" if kind in {"facts", "exporters"} else "matrix")
    path = data.draw(st.sampled_from(list(places(whole))))
    broken = damaged(whole, path, data.draw(JUNK))
    vars(world).update(vars(sound))
    setattr(world, kind, Reply(json.dumps(broken).encode()))

    try:
        observation = SOURCE.observe(target_of(url, user_label="user"), **ASKED_AFTER)
        figures = SOURCE.observe_devices(target_of(url), **ASKED_AFTER)
    except SourceUnavailableError as refusal:
        assert refusal.reason in REASONS  # noqa: PT017 - Either outcome is right.
    else:
        assert observation.evidence
        assert figures.evidence
        assert all(one.units > 0 or pod.defects for pod in observation.pods for one in pod.requests)
