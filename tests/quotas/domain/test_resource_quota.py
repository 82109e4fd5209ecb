"""Sizes told in the resources of a cluster."""

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.resource_quota import (
    KeyComparison,
    compare_keys,
    hard_of,
    has_arrived,
    sizes_offered,
    tell_briefly,
)

NAMES = st.sampled_from(
    ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"]
)


def test_every_offered_resource_is_named_and_what_is_not_granted_is_zero() -> None:
    hard = hard_of(
        ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu", "amd.com/gpu"],
        {"nvidia.com/gpu": GPUSize.LARGE, "nvidia.com/mig-1g.10gb": GPUSize.SMALL},
        {GPUSize.LARGE: 8},
    )

    assert hard == {
        "requests.amd.com/gpu": 0,
        "requests.nvidia.com/gpu": 8,
        "requests.nvidia.com/mig-1g.10gb": 0,
    }


def test_two_profiles_of_one_size_each_get_its_units() -> None:
    sizes = {"nvidia.com/mig-2g.20gb": GPUSize.MEDIUM, "nvidia.com/mig-3g.40gb": GPUSize.MEDIUM}

    assert set(hard_of(sizes, sizes, {GPUSize.MEDIUM: 4}).values()) == {4}


def test_a_cluster_serves_the_sizes_of_what_it_offers_only() -> None:
    sizes = {"nvidia.com/gpu": GPUSize.LARGE, "nvidia.com/mig-1g.10gb": GPUSize.SMALL}

    assert sizes_offered(["nvidia.com/gpu", "amd.com/gpu"], sizes) == {GPUSize.LARGE}


@given(
    offered=st.lists(NAMES),
    sizes=st.dictionaries(NAMES, st.none() | st.sampled_from(GPUSize)),
    units=st.dictionaries(st.sampled_from(GPUSize), st.integers(min_value=0, max_value=99)),
)
def test_no_offered_resource_is_ever_left_out(
    offered: list[str], sizes: dict[str, GPUSize | None], units: dict[GPUSize, int]
) -> None:
    hard = hard_of(offered, sizes, units)

    assert set(hard) == {f"requests.{name}" for name in offered}
    assert list(hard) == sorted(hard)
    assert all(value == 0 or value in units.values() for value in hard.values())


def test_a_quota_has_arrived_when_every_desired_key_says_so() -> None:
    desired = {"requests.nvidia.com/gpu": 8}

    assert has_arrived(desired, {"requests.nvidia.com/gpu": 8, "requests.example.com/fpga": 1})
    assert not has_arrived(desired, {"requests.nvidia.com/gpu": 7})
    assert not has_arrived(desired, {})


def test_desired_live_and_used_stand_beside_each_other_by_key() -> None:
    rows = compare_keys({"a": 8, "b": 0}, {"a": 8, "c": 1}, {"a": 2})

    assert rows == (
        KeyComparison("a", 8, 8, 2),
        KeyComparison("b", 0, None, None),
        KeyComparison("c", None, 1, None),
    )
    assert [row.is_true for row in rows] == [True, False, True]


def test_a_quota_is_told_by_resource_name() -> None:
    hard = {"requests.nvidia.com/mig-1g.10gb": 0, "requests.nvidia.com/gpu": 8}

    assert tell_briefly(hard) == "nvidia.com/gpu 8, nvidia.com/mig-1g.10gb 0"
    assert tell_briefly({}) == "none"
