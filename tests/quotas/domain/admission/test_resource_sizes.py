"""Which one size a resource name counts to on a cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.names import possible_sizes
from metering.domain.catalogue.sizing import DEFAULT_RULES, Rule
from metering.domain.catalogue.units import GPUSize
from quotas.domain.admission.demands import FROM_SMALLEST, size_by_name

S, M, L = FROM_SMALLEST


@pytest.mark.parametrize(
    ("resource", "size"),
    [
        ("nvidia.com/mig-1g.10gb", S),
        ("nvidia.com/mig-2g.20gb", M),
        ("nvidia.com/mig-3g.40gb", M),
        ("nvidia.com/mig-7g.80gb", L),
        ("nvidia.com/gpu.shared", S),
        ("nvidia.com/mig-1g.10gb.shared", S),
        ("nvidia.com/gpumem", None),
        ("amd.com/gpu", None),
    ],
)
def test_a_name_that_says_its_size_needs_nothing_more(resource: str, size: GPUSize | None) -> None:
    assert size_by_name(resource, rules=DEFAULT_RULES, seen=()) is size
    assert size_by_name(resource, rules=DEFAULT_RULES, seen=FROM_SMALLEST) is size


@pytest.mark.parametrize(
    ("resource", "seen", "size"),
    [
        ("claim/gpu.nvidia.com", (), L),
        ("claim/gpu.nvidia.com", (S,), L),
        ("claim/mig.nvidia.com", (), L),
        ("claim/mig.nvidia.com", (S, M), M),
        ("claim/h100.example.com", (S,), S),
        ("claim/gpu.example.com", (), L),
        ("claim/h100.example.com", (), None),
    ],
)
def test_a_device_class_has_the_size_of_its_rule_or_of_what_was_seen(
    resource: str, seen: tuple[GPUSize, ...], size: GPUSize | None
) -> None:
    assert size_by_name(resource, rules=DEFAULT_RULES, seen=seen) is size


@pytest.mark.parametrize(
    ("seen", "size"), [((), L), ((S,), S), ((M,), M), ((L,), L), ((S, L), L), ((S, M), M)]
)
def test_nvidia_gpu_counts_to_what_was_seen_and_to_the_largest_in_doubt(
    seen: tuple[GPUSize, ...], size: GPUSize
) -> None:
    assert size_by_name("nvidia.com/gpu", rules=DEFAULT_RULES, seen=seen) is size


def test_a_profile_that_is_the_whole_of_a_small_device_counts_large_until_it_is_seen() -> None:
    name = "nvidia.com/mig-4g.24gb"

    assert possible_sizes(name, rules=DEFAULT_RULES) == {M, L}
    assert size_by_name(name, rules=DEFAULT_RULES, seen=()) is L
    assert size_by_name(name, rules=DEFAULT_RULES, seen=(M,)) is M


def test_a_size_no_rule_gives_to_a_name_is_not_believed() -> None:
    assert size_by_name("nvidia.com/gpu.shared", rules=DEFAULT_RULES, seen=(L,)) is S


def test_rules_behind_the_first_unconditional_one_do_not_count() -> None:
    rules = (Rule(None, ("nvidia.com/*",)), Rule(L, ("nvidia.com/gpu",)))

    assert possible_sizes("nvidia.com/gpu", rules=rules) == frozenset()


def test_a_catalogue_that_names_a_class_says_all_there_is_about_it() -> None:
    name = "claim/gpu.nvidia.com"

    assert size_by_name(name, rules=(Rule(None, ("claim/*",)),), seen=(L,)) is None
    assert size_by_name(name, rules=(Rule(S, ("claim/gpu.*",)),), seen=(L,)) is S


@given(seen=st.sets(st.sampled_from(GPUSize)))
def test_the_answer_is_always_one_the_rules_allow(seen: set[GPUSize]) -> None:
    for name in ("nvidia.com/gpu", "nvidia.com/mig-4g.96gb", "nvidia.com/gpu.shared"):
        size = size_by_name(name, rules=DEFAULT_RULES, seen=seen)

        assert size in possible_sizes(name, rules=DEFAULT_RULES)
