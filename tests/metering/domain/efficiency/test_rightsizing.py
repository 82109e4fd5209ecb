"""Rightsizing: the smallest part of the same GPU that meets a need."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.mig_geometry import geometry_of
from metering.domain.catalogue.sizing import DEFAULT_RULES, Catalogue
from metering.domain.efficiency.rightsizing import (
    Need,
    Present,
    memory_of,
    need_of,
    smaller_that_serves,
)

CATALOGUE = Catalogue(version=1, rules=DEFAULT_RULES)
H100 = Present("NVIDIA-H100-80GB-HBM3", Fraction(1), 81_559)


def found(present: Present, memory: int, share: Fraction) -> str | None:
    sized = smaller_that_serves(present, need=Need(Fraction(memory), share), catalogue=CATALOGUE)
    return None if sized is None else sized.price_group


@pytest.mark.parametrize(
    ("memory", "share", "group"),
    [
        (0, Fraction(0), "H100/1g.10gb"),
        (9_536, Fraction(1, 7), "H100/1g.10gb"),
        (9_537, Fraction(1, 7), "H100/1g.20gb"),
        (9_000, Fraction(1, 5), "H100/2g.20gb"),
        (20_000, Fraction(1, 7), "H100/3g.40gb"),
        (30_000, Fraction(1, 2), "H100/4g.40gb"),
        (40_000, Fraction(1, 7), None),
        (0, Fraction(4, 5), None),
    ],
)
def test_an_h100_is_offered_the_smallest_instance_that_serves(
    memory: int, share: Fraction, group: str | None
) -> None:
    assert found(H100, memory, share) == group


def test_an_instance_is_offered_only_what_is_truly_smaller() -> None:
    held = Present(H100.product, Fraction(2, 7), 20_096)

    assert found(held, 15_000, Fraction(1, 7)) == "H100/1g.20gb"
    assert found(held, 15_000, Fraction(2, 7)) is None


def test_instances_for_media_and_graphics_are_never_offered() -> None:
    model = "RTX-PRO-6000-Blackwell-Server-Edition"
    held = Present(f"NVIDIA-{model}", Fraction(1), 97_887)

    assert found(held, 1_000, Fraction(1, 10)) == f"{model}/1g.24gb"


def test_a_catalogue_without_rules_sizes_no_suggestion() -> None:
    empty = Catalogue(version=1, rules=())
    need = Need(Fraction(0), Fraction(0))

    assert smaller_that_serves(H100, need=need, catalogue=empty) is None
    without_mig = Present("NVIDIA-L40S", Fraction(1), 46_068)
    assert smaller_that_serves(without_mig, need=need, catalogue=empty) is None


def test_a_share_needs_known_memory_and_a_whole_gpu() -> None:
    assert found(Present("NVIDIA-L40S", Fraction(1), None), 1, Fraction(0)) is None
    assert found(Present("NVIDIA-L40S", Fraction(1, 2), 46_068), 1, Fraction(0)) is None


def test_a_need_has_headroom_and_is_never_more_than_is_held() -> None:
    need = need_of(
        memory_mebibytes=10_000,
        activity=Decimal("0.5"),
        share=Fraction(2, 7),
        headroom=Decimal("0.2"),
    )

    assert need == Need(Fraction(12_000), Fraction(6, 35))
    assert need_of(
        memory_mebibytes=1, activity=Decimal("0.9"), share=Fraction(1), headroom=Decimal("0.2")
    ).share == Fraction(1)


@given(memory=st.integers(0, 90_000), percent=st.integers(0, 100))
def test_what_is_offered_serves_and_is_smaller(memory: int, percent: int) -> None:
    group = found(H100, memory, Fraction(percent, 100))

    if group is not None:
        profile = group.partition("/")[2]
        geometry = geometry_of(H100.product)
        assert geometry is not None
        assert memory_of(profile) >= memory
        assert Fraction(int(profile[0]), 7) >= Fraction(percent, 100)
        assert int(profile[0]) < 7
