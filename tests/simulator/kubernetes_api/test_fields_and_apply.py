"""Who owns which field, and how one intent merges into another's object."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.kubernetes_api.errors import JSON, StatusError
from simulator.kubernetes_api.patches import (
    APPLY,
    UPDATE,
    Ownership,
    apply_intent,
    drop_path,
    leaves,
    own_changes,
    read_ownerships,
    set_path,
    with_ownerships,
)

NOW = "2026-10-01T00:00:00Z"
keys = st.sampled_from(["a", "b", "c", "requests.nvidia.com/gpu"])
hards = st.dictionaries(keys, st.sampled_from(["0", "1", "2"]), max_size=4)


def quota(**hard: str) -> dict[str, Any]:
    return {"metadata": {"name": "q", "uid": "u"}, "spec": {"hard": hard}}


def intent(hard: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"hard": hard}}


def apply(
    live: dict[str, Any], hard: dict[str, str], manager: str, *, forced: bool = False
) -> JSON:
    return apply_intent(live, intent(hard), Ownership(manager, APPLY, NOW), is_forced=forced)


def owners(obj: dict[str, Any]) -> dict[str, set[str]]:
    return {
        one.manager: {path[-1] for path in one.paths if path[:2] == ("spec", "hard")}
        for one in read_ownerships(obj)
    }


def test_leaves_leave_out_what_nobody_owns() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "uid": "u", "labels": {"a": "b"}, "managedFields": []},
        "spec": {"hard": {"x": "1"}, "scopes": ["Terminating"], "scopeSelector": None},
    }

    assert leaves(obj) == {
        ("metadata", "labels", "a"): "b",
        ("spec", "hard", "x"): "1",
        ("spec", "scopes"): ["Terminating"],
    }


def test_ownerships_come_back_as_they_went() -> None:
    one = Ownership("m", UPDATE, NOW, frozenset({("spec", "hard", "x"), ("status", "y")}), "status")

    assert read_ownerships(with_ownerships(quota(), [one])) == [one]


def test_who_owns_nothing_is_left_out() -> None:
    assert read_ownerships(with_ownerships(quota(), [Ownership("m", UPDATE, NOW)])) == []


def test_an_update_takes_over_what_it_changes() -> None:
    first = own_changes(None, quota(x="1", y="1"), Ownership("one", UPDATE, NOW))
    changed = {**first, "spec": {"hard": {"x": "2", "y": "1"}}}

    second = own_changes(first, changed, Ownership("two", UPDATE, NOW))

    assert owners(second) == {"one": {"y"}, "two": {"x"}}


def test_an_update_that_removes_leaves_no_owner() -> None:
    first = own_changes(None, quota(x="1", y="1"), Ownership("one", UPDATE, NOW))
    without = {**first, "spec": {"hard": {"y": "1"}}}

    second = own_changes(first, without, Ownership("two", UPDATE, NOW))

    assert owners(second) == {"one": {"y"}}


def test_an_update_of_nothing_keeps_the_owners() -> None:
    first = own_changes(None, quota(x="1"), Ownership("one", UPDATE, NOW))

    assert own_changes(first, first, Ownership("two", UPDATE, NOW)) is first


def test_dropping_the_last_leaf_drops_its_maps() -> None:
    obj: dict[str, Any] = {"a": {"b": {"c": 1}}, "d": 1}

    drop_path(obj, ("a", "b", "c"))
    drop_path(obj, ("x", "y"))

    assert obj == {"a": {}, "d": 1}


def test_setting_makes_the_maps_on_the_way() -> None:
    obj: dict[str, Any] = {"a": None}

    set_path(obj, ("a", "b"), 1)

    assert obj == {"a": {"b": 1}}


def test_applying_the_same_gives_the_very_object() -> None:
    once = apply(quota(), {"x": "1"}, "m")

    assert apply(once, {"x": "1"}, "m") is once


def test_an_empty_map_removes_nothing_of_others() -> None:
    live = apply(quota(), {"x": "1"}, "they")

    merged = apply(live, {}, "we")

    assert merged["spec"]["hard"] == {"x": "1"}


def test_a_conflict_names_manager_and_field() -> None:
    live = apply(quota(), {"x": "1"}, "one")

    with pytest.raises(StatusError) as caught:
        apply(live, {"x": "2"}, "two")

    assert caught.value.code == 409
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "one": .spec.hard.x'


def test_conflicts_with_several_are_reported_by_manager() -> None:
    live = apply(apply(quota(), {"x": "1"}, "b"), {"y": "1"}, "a")

    with pytest.raises(StatusError) as caught:
        apply(live, {"x": "2", "y": "2"}, "c")

    assert str(caught.value) == (
        'Apply failed with 2 conflicts: conflicts with "a":\n- .spec.hard.y\n'
        'conflicts with "b":\n- .spec.hard.x'
    )


@given(hards, hards)
def test_the_last_intent_of_one_manager_is_what_stands(
    first: dict[str, str], second: dict[str, str]
) -> None:
    live = apply(apply(quota(), first, "m"), second, "m")

    assert live["spec"].get("hard", {}) == second


@given(hards, hards, hards)
def test_a_forced_apply_never_touches_what_it_does_not_send(
    theirs: dict[str, str], before: dict[str, str], after: dict[str, str]
) -> None:
    live = apply(quota(), theirs, "they")
    live = apply(live, before, "we", forced=True)
    kept = {key: value for key, value in theirs.items() if key not in {**before, **after}}

    live = apply(live, after, "we", forced=True)

    hard = live["spec"].get("hard", {})
    assert {key: hard.get(key) for key in kept} == kept
    assert {key: hard.get(key) for key in after} == after


@given(hards, hards)
def test_a_refused_apply_changes_nothing(theirs: dict[str, str], ours: dict[str, str]) -> None:
    live = apply(quota(), theirs, "they")
    before = repr(live)
    disputed = {key for key in ours if key in theirs and theirs[key] != ours[key]}

    if disputed:
        with pytest.raises(StatusError):
            apply(live, ours, "we")
    else:
        apply(live, ours, "we")

    assert repr(live) == before
