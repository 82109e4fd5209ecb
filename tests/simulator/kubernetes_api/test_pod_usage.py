"""What a pod counts for in a quota."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from simulator.kubernetes_api.quota import (
    effective_requests,
    is_extended,
    matches_scopes,
    usage_of,
)

AT = datetime(2026, 10, 1, tzinfo=UTC)
GPU = "nvidia.com/gpu"


def container(units: int, *, sidecar: bool = False) -> dict[str, Any]:
    amounts = {GPU: str(units)}
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": "c", "resources": {"requests": amounts, "limits": amounts}, **policy}


def pod(*regular: int, init: tuple[dict[str, Any], ...] = (), **spec: object) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {
            "containers": [container(units) for units in regular],
            "initContainers": list(init),
            **spec,
        },
        "status": {"phase": "Pending"},
    }


@pytest.mark.parametrize(
    ("subject", "units"),
    [
        (pod(2, 1), 3),
        (pod(1, init=(container(4),)), 4),
        (pod(3, init=(container(2),)), 3),
        (pod(1, init=(container(1, sidecar=True), container(2))), 3),
        (pod(1, init=(container(2), container(1, sidecar=True))), 2),
        (pod(1, init=(container(1, sidecar=True), container(1, sidecar=True))), 3),
    ],
)
def test_the_effective_request_knows_the_order_of_sidecars(
    subject: dict[str, Any], units: int
) -> None:
    assert effective_requests(subject) == {GPU: Fraction(units)}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_finished_count_for_nothing(phase: str) -> None:
    done = {**pod(2), "status": {"phase": phase}}

    assert usage_of(done, AT) == {}


def test_the_deleted_count_until_their_grace_has_passed() -> None:
    ending = pod(2)
    ending["metadata"] |= {
        "deletionTimestamp": "2026-10-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
    }

    assert usage_of(ending, AT + timedelta(seconds=30))["requests.nvidia.com/gpu"] == 2
    assert usage_of(ending, AT + timedelta(seconds=31)) == {}


@pytest.mark.parametrize(
    ("name", "answer"),
    [(GPU, True), ("cpu", False), ("kubernetes.io/x", False), ("requests.nvidia.com/gpu", False)],
)
def test_extended_resources_have_a_domain(name: str, answer: bool) -> None:  # noqa: FBT001 - A column of the table.
    assert is_extended(name) is answer


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"scopes": ["Terminating"]}, False),
        ({"scopes": ["NotTerminating"]}, True),
        ({"scopes": ["Unheard"]}, False),
        ({}, True),
    ],
)
def test_a_quota_is_about_what_fits_every_scope(spec: dict[str, Any], fits: bool) -> None:  # noqa: FBT001 - A column of the table.
    assert matches_scopes({"spec": spec}, pod(1)) is fits


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["gold"], True),
        ("In", ["iron"], False),
        ("NotIn", ["iron"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
    ],
)
def test_a_quota_may_be_about_a_priority_class(
    operator: str,
    values: list[str],
    fits: bool,  # noqa: FBT001 - A column of the table.
) -> None:
    expression = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    quota = {"spec": {"scopeSelector": {"matchExpressions": [expression]}}}

    assert matches_scopes(quota, pod(1, priorityClassName="gold")) is fits
