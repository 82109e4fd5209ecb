"""A namespace's quota in the words of Kueue."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.enforcement.kueue import (
    UNLIMITED,
    KueueChecks,
    checks_notice,
    cluster_queue_name,
    cluster_queue_spec,
    has_settled,
    kueue_checks,
    local_queue_spec,
    queue_quota,
    queue_used,
    queued,
    uncounted,
)

GPU, MIG = "requests.nvidia.com/gpu", "requests.nvidia.com/mig-1g.10gb"
CLAIM = "gpu.deviceclass.resource.k8s.io/devices"
KEYS = st.sampled_from([GPU, MIG])


def spec_of(**further: Any) -> dict[str, Any]:  # noqa: ANN401 - What the test is about.
    fields: dict[str, Any] = {"hard": {GPU: 8}, "burst": {}, "cohort": "acme", "is_held": False}
    return cluster_queue_spec(namespace="llm", **{**fields, **further})


def test_nobody_borrows_without_burst() -> None:
    (group,) = spec_of()["resourceGroups"]

    assert group["flavors"][0]["resources"][-1] == {
        "name": "nvidia.com/gpu",
        "nominalQuota": "8",
        "borrowingLimit": "0",
    }


def test_what_every_pod_asks_for_beside_gpus_is_covered_by_the_one_flavor() -> None:
    (group,) = spec_of()["resourceGroups"]
    (flavor,) = group["flavors"]

    assert group["coveredResources"] == ["cpu", "ephemeral-storage", "memory", "nvidia.com/gpu"]
    assert [one["name"] for one in flavor["resources"]] == group["coveredResources"]
    assert {one["name"]: one["nominalQuota"] for one in flavor["resources"][:-1]} == UNLIMITED


def test_a_queue_takes_workloads_of_its_own_namespace_only() -> None:
    selector = spec_of()["namespaceSelector"]

    assert selector == {"matchLabels": {"kubernetes.io/metadata.name": "llm"}}
    assert local_queue_spec("llm") == {"clusterQueue": cluster_queue_name("llm")}
    assert cluster_queue_name("llm") == "gpu-ledger.llm"


def test_claims_are_left_to_kueues_own_configuration() -> None:
    assert queued({CLAIM: 2, GPU: 8}) == {GPU: 8}


@pytest.mark.parametrize("hard", [{}, {CLAIM: 2}])
def test_where_no_gpu_can_be_counted_none_is_covered(hard: dict[str, int]) -> None:
    (group,) = spec_of(hard=hard)["resourceGroups"]

    assert group["coveredResources"] == ["cpu", "ephemeral-storage", "memory"]


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
    resources = [{"name": "nvidia.com/gpu", "total": "5"}, {"name": "cpu", "total": "1500m"}]

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


def test_kueues_own_configuration_says_what_it_compares() -> None:
    assert kueue_checks({}) == kueue_checks({"resources": None}) == KueueChecks("BlockUndeclared")
    assert kueue_checks({"resources": {"quotaCheckStrategy": "IgnoreUndeclared"}}) == KueueChecks(
        "IgnoreUndeclared"
    )
    assert kueue_checks({"resources": {"excludeResourcePrefixes": ["rdma/"]}}) == KueueChecks(
        "BlockUndeclared", ("rdma/",)
    )


@pytest.mark.parametrize(
    ("resources", "field"),
    [
        ([], None),
        (["x"], "resources"),
        ({"quotaCheckStrategy": 1}, "quotaCheckStrategy"),
        ({"excludeResourcePrefixes": "rdma/"}, "excludeResourcePrefixes"),
        ({"excludeResourcePrefixes": [1]}, "excludeResourcePrefixes"),
    ],
)
def test_a_configuration_of_another_shape_is_refused_by_field(
    resources: object, field: str | None
) -> None:
    if field is None:
        assert kueue_checks({"resources": resources}) == KueueChecks()
    else:
        with pytest.raises(TypeError, match=field):
            kueue_checks({"resources": resources})


def test_an_excluded_prefix_leaves_limited_gpus_uncounted() -> None:
    checks = KueueChecks(excluded=("rdma/", "nvidia.com/mig-"))

    assert uncounted(checks, {GPU: 8, MIG: 2, CLAIM: 1}) == {
        "nvidia.com/mig-1g.10gb": "nvidia.com/mig-"
    }
    assert uncounted(KueueChecks(), {GPU: 8}) == {}


def test_a_notice_names_the_setting_and_what_follows() -> None:
    waits = checks_notice(KueueChecks(excluded=("rdma/",)), {GPU: 8})
    free = checks_notice(KueueChecks("IgnoreUndeclared"), {GPU: 8})
    missed = checks_notice(KueueChecks(excluded=("nvidia.com/",)), {GPU: 8})

    assert "BlockUndeclared" in waits
    assert "cpu, ephemeral-storage, memory" in waits
    assert "(rdma/)" in waits
    assert "not offered in this cluster" in free
    assert missed == "Kueue's excludeResourcePrefixes exclude nvidia.com/gpu: it is not limited."
