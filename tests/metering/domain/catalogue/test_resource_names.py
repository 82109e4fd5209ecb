"""Resource names are compared forwards: known names sanitised, nothing reversed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.mig_geometry import ALL_PROFILES
from metering.domain.catalogue.units import KNOWN_RESOURCES, resource_of, sanitise


@pytest.mark.parametrize(
    ("spelled", "raw", "profile", "is_shared"),
    [
        ("nvidia_com_gpu", "nvidia.com/gpu", "", False),
        ("nvidia.com/gpu", "nvidia.com/gpu", "", False),
        ("nvidia_com_gpu_shared", "nvidia.com/gpu.shared", "", True),
        ("nvidia_com_mig_1g_10gb", "nvidia.com/mig-1g.10gb", "1g.10gb", False),
        ("nvidia_com_mig_1g_10gb_me", "nvidia.com/mig-1g.10gb.me", "1g.10gb.me", False),
        ("nvidia_com_mig_1g_24gb_me", "nvidia.com/mig-1g.24gb-me", "1g.24gb-me", False),
        ("nvidia_com_mig_3g_40gb_shared", "nvidia.com/mig-3g.40gb.shared", "3g.40gb", True),
    ],
)
def test_a_known_resource_is_found_by_either_spelling(
    spelled: str, raw: str, profile: str, *, is_shared: bool
) -> None:
    found = resource_of(spelled)

    assert found is not None
    assert (found.raw, found.profile, found.is_shared) == (raw, profile, is_shared)


@pytest.mark.parametrize("name", ["", "cpu", "amd_com_gpu", "nvidia_com_gpumem", "nvidia_com_mig_"])
def test_what_nobody_knows_is_not_found(name: str) -> None:
    assert resource_of(name) is None


def test_no_two_known_resources_share_a_sanitised_name() -> None:
    assert len(KNOWN_RESOURCES) == 2 * (len(ALL_PROFILES) + 1)


@given(st.text())
def test_sanitising_again_changes_nothing_and_keeps_the_length(name: str) -> None:
    once = sanitise(name)

    assert sanitise(once) == once
    assert len(once) == len(name)
    assert all(c.isascii() and (c.isalnum() or c == "_") for c in once)
