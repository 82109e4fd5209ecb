"""Patches and selectors, as their standards have them."""

from typing import Any

import pytest

from simulator.kubernetes_api.errors import StatusError
from simulator.kubernetes_api.patches import (
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from simulator.kubernetes_api.reading import ListQuery
from simulator.kubernetes_api.resources import PODS


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        # Source: RFC 7386, appendix A.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_follow_the_standard(target: object, patch: object, expected: object) -> None:
    assert merge_patch(target, patch) == expected


def test_a_merge_patch_leaves_its_target() -> None:
    target = {"a": {"b": 1}}

    merge_patch(target, {"a": {"b": 2}})

    assert target == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        (
            {"containers": [{"name": "a", "image": "2"}]},
            [{"name": "a", "image": "2"}, {"name": "b", "image": "1"}],
        ),
        (
            {"containers": [{"name": "c", "image": "1"}]},
            [
                {"name": "a", "image": "1"},
                {"name": "b", "image": "1"},
                {"name": "c", "image": "1"},
            ],
        ),
    ],
)
def test_keyed_lists_merge_by_their_key(patch: object, expected: object) -> None:
    target = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}

    assert strategic_merge_patch(target, patch) == {"containers": expected}


def test_other_lists_are_replaced() -> None:
    target = {"scopes": ["A", "B"], "hard": {"x": 1, "y": 2}}

    patched = strategic_merge_patch(target, {"scopes": ["C"], "hard": {"z": 3}, "gone": None})

    assert patched == {"scopes": ["C"], "hard": {"x": 1, "y": 2, "z": 3}}


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/b", "value": 1}], {"a": [1, 2], "b": 1}),
        ([{"op": "add", "path": "/a/0", "value": 9}], {"a": [9, 1, 2]}),
        ([{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 9]}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ([{"op": "replace", "path": "/a/1", "value": 7}], {"a": [1, 7]}),
        ([{"op": "test", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
        ([{"op": "add", "path": "/x~1y~0z", "value": 1}], {"a": [1, 2], "x/y~z": 1}),
    ],
)
def test_json_patches_follow_the_standard(operations: object, expected: object) -> None:
    assert json_patch({"a": [1, 2]}, operations) == expected


@pytest.mark.parametrize(
    "operations",
    [
        {"op": "add"},
        [{"op": "remove", "path": "/nothing"}],
        [{"op": "replace", "path": "/nothing", "value": 1}],
        [{"op": "test", "path": "/a/0", "value": 5}],
        [{"op": "move", "path": "/a"}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": "/a/9/b", "value": 1}],
        [{"path": "/a"}],
    ],
)
def test_a_json_patch_that_does_not_fit_is_refused_as_a_real_server_does(
    operations: object,
) -> None:
    with pytest.raises(StatusError) as caught:
        json_patch({"a": [1, 2]}, operations)

    assert caught.value.code == 422


def pod(name: str = "p", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "status": {"phase": "Running"}}


@pytest.mark.parametrize("text", ["a in", "a in 1", "=1", "a=b=c", "a b", ",", "a in (1"])
def test_a_label_selector_that_is_none_is_a_bad_request(text: str) -> None:
    with pytest.raises(StatusError) as caught:
        ListQuery(PODS, labels=text).selector()

    assert caught.value.code == 400
