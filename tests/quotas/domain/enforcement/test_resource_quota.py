"""Sizes reported in the resources of a cluster."""

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize
from quotas.domain.enforcement.resource_quota import (
    OPEN_UNITS,
    KeyComparison,
    compare_keys,
    format_granted,
    format_hard,
    hard_of,
    has_arrived,
    scoped_of,
    sizes_offered,
    total_of,
)

NAMES = st.sampled_from(
    ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"]
)


def test_every_resource_is_named_as_kubernetes_counts_it() -> None:
    assert hard_of({"nvidia.com/mig-1g.10gb": 0, "nvidia.com/gpu": 8}) == {
        "requests.nvidia.com/gpu": 8,
        "requests.nvidia.com/mig-1g.10gb": 0,
    }


def test_a_device_class_is_named_on_both_its_routes() -> None:
    assert hard_of({"claim/gpu.nvidia.com": 3}) == {
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": 3,
        "requests.deviceclass.resource.kubernetes.io/gpu.nvidia.com": 3,
    }


def test_only_what_pods_ask_for_can_be_distinguished_by_priority() -> None:
    hard = hard_of({"claim/gpu": 3, "nvidia.com/gpu": 8})

    assert scoped_of(hard) == {
        "requests.deviceclass.resource.kubernetes.io/gpu": 3,
        "requests.nvidia.com/gpu": 8,
    }


def test_all_pods_together_may_hold_nominal_and_burst() -> None:
    assert total_of({"a": 8, "b": 0}, {"a": 2}) == {"a": 10, "b": 0}


def test_an_open_key_is_reported_as_open() -> None:
    (key,) = compare_keys({"a": OPEN_UNITS}, {"a": OPEN_UNITS}, {"a": 4})

    assert (key.is_open, key.is_true) == (True, True)
    assert format_hard({"requests.nvidia.com/gpu": OPEN_UNITS}) == "nvidia.com/gpu open"


def test_a_cluster_serves_the_sizes_of_what_it_offers_only() -> None:
    sizes = {"nvidia.com/gpu": GPUSize.LARGE, "nvidia.com/mig-1g.10gb": GPUSize.SMALL}

    assert sizes_offered(["nvidia.com/gpu", "amd.com/gpu"], sizes) == {GPUSize.LARGE}


@given(units=st.dictionaries(NAMES, st.integers(min_value=0, max_value=99)))
def test_no_offered_resource_is_ever_left_out(units: dict[str, int]) -> None:
    hard = hard_of(units)

    assert hard == {f"requests.{name}": number for name, number in units.items()}
    assert list(hard) == sorted(hard)


def test_a_quota_has_arrived_when_every_desired_key_says_so() -> None:
    desired = {"requests.nvidia.com/gpu": 8}

    assert has_arrived(desired, {"requests.nvidia.com/gpu": 8, "requests.example.com/fpga": 1})
    assert not has_arrived(desired, {"requests.nvidia.com/gpu": 7})
    assert not has_arrived(desired, {})


def test_desired_live_and_used_stand_beside_each_other_by_key() -> None:
    rows = compare_keys({"a": 8, "b": 0}, {"a": 8, "c": 1}, {"a": 2}, {"a": 5})

    assert rows == (
        KeyComparison("a", 8, 5, 8, 2),
        KeyComparison("b", 0, None, None, None),
        KeyComparison("c", None, None, 1, None),
    )
    assert [row.is_true for row in rows] == [True, False, True]


def test_a_quota_is_reported_by_resource_name() -> None:
    hard = {"requests.nvidia.com/mig-1g.10gb": 0, "requests.nvidia.com/gpu": 8}

    assert format_hard(hard) == "nvidia.com/gpu 8, nvidia.com/mig-1g.10gb 0"
    assert format_hard({}) == "none"


def test_a_narrow_column_shows_only_what_is_granted() -> None:
    hard = {"requests.nvidia.com/mig-1g.10gb": 0, "requests.nvidia.com/gpu": 8}

    assert format_granted(hard) == "nvidia.com/gpu 8"
    assert format_granted(dict.fromkeys(hard, 0)) == "0 of everything"
    assert format_granted({}) == "none"
