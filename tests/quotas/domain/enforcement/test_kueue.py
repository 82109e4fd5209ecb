"""A namespace's quota in the words of Kueue."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.enforcement.kueue import (
    cluster_queue_name,
    cluster_queue_spec,
    has_settled,
    local_queue_spec,
    queue_quota,
    queue_used,
    queued,
)

GPU, MIG = "requests.nvidia.com/gpu", "requests.nvidia.com/mig-1g.10gb"
CLAIM = "gpu.deviceclass.resource.k8s.io/devices"
KEYS = st.sampled_from([GPU, MIG])


def spec_of(**further: Any) -> dict[str, Any]:  # noqa: ANN401 - What the test is about.
    fields: dict[str, Any] = {"hard": {GPU: 8}, "burst": {}, "cohort": "acme", "is_held": False}
    return cluster_queue_spec(namespace="llm", **{**fields, **further})


def test_nobody_borrows_without_burst() -> None:
    (group,) = spec_of()["resourceGroups"]

    assert group["flavors"][0]["resources"] == [
        {"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": "0"}
    ]


def test_a_queue_takes_workloads_of_its_own_namespace_only() -> None:
    selector = spec_of()["namespaceSelector"]

    assert selector == {"matchLabels": {"kubernetes.io/metadata.name": "llm"}}
    assert local_queue_spec("llm") == {"clusterQueue": cluster_queue_name("llm")}
    assert cluster_queue_name("llm") == "gpu-ledger.llm"


def test_claims_are_left_to_kueues_own_configuration() -> None:
    assert queued({CLAIM: 2, GPU: 8}) == {GPU: 8}


@pytest.mark.parametrize("hard", [{}, {CLAIM: 2}])
def test_where_nothing_can_be_counted_nothing_is_covered(hard: dict[str, int]) -> None:
    assert spec_of(hard=hard)["resourceGroups"] == []


@given(
    hard=st.dictionaries(KEYS, st.integers(0, 99)),
    burst=st.dictionaries(KEYS, st.integers(0, 9)),
    is_held=st.booleans(),
)
def test_what_is_written_is_read_back(
    hard: dict[str, int], burst: dict[str, int], *, is_held: bool
) -> None:
    quota = queue_quota(spec_of(hard=hard, burst=burst, is_held=is_held))

    assert quota.hard == dict(sorted(hard.items()))
    assert quota.burst == {key: burst.get(key, 0) for key in quota.hard}
    assert quota.is_held is is_held


def test_an_empty_queue_says_nothing() -> None:
    assert queue_quota({}).hard == {}
    assert queue_used({}) == {}


def test_several_flavors_of_one_resource_add_up() -> None:
    one = {"name": "nvidia.com/gpu", "nominalQuota": "3"}
    flavors = [{"name": name, "resources": [one]} for name in ("a", "b")]

    assert queue_quota({"resourceGroups": [{"flavors": flavors}]}).hard == {GPU: 6}


def test_reserved_units_are_what_is_used() -> None:
    resources = [{"name": "nvidia.com/gpu", "total": "5"}]

    assert queue_used({"flavorsReservation": [{"name": "a", "resources": resources}]}) == {GPU: 5}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], False),
        ([{"type": "Active", "observedGeneration": 1}], False),
        ([{"type": "Active", "observedGeneration": 2}], True),
        ([{"type": "Other", "observedGeneration": 2}], False),
        ([{"type": "Active"}], False),
    ],
)
def test_a_queue_is_believed_once_its_controller_has_seen_it(
    conditions: list[dict[str, object]], *, expected: bool
) -> None:
    assert has_settled({"generation": 2}, {"conditions": conditions}) is expected
