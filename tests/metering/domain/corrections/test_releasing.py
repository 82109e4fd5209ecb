"""How much of what is known later goes into the ledger without a person."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.corrections.correction import NOTHING_HELD, DisputedUsage, Release, release_of

DISPUTED = DisputedUsage(is_disputed=True)


@pytest.mark.parametrize(
    ("unit_seconds", "holding", "is_vouched_for", "release"),
    [
        pytest.param(60, NOTHING_HELD, False, Release(60, wants_person=False), id="not held"),
        pytest.param(-60, DISPUTED, False, Release(-60, wants_person=False), id="less"),
        pytest.param(1800, DISPUTED, False, Release(0, wants_person=False), id="one fell silent"),
        pytest.param(1800, DISPUTED, True, Release(1800, wants_person=False), id="both tell"),
        pytest.param(
            1800,
            DisputedUsage(left_off_unit_seconds=1800),
            True,
            Release(0, wants_person=True),
            id="left off by a person",
        ),
        pytest.param(
            1860,
            DisputedUsage(left_off_unit_seconds=1800),
            True,
            Release(60, wants_person=True),
            id="more than was left off",
        ),
    ],
)
def test_what_is_disputed_or_left_off_is_not_billed_by_a_machine(
    unit_seconds: int, holding: DisputedUsage, *, is_vouched_for: bool, release: Release
) -> None:
    found = release_of(
        unit_seconds, holding=holding, is_vouched_for=is_vouched_for, wants_person=False
    )

    assert found == release


@given(
    unit_seconds=st.integers(-7200, 7200),
    holding=st.builds(DisputedUsage, st.booleans(), st.integers(0, 7200)),
    is_vouched_for=st.booleans(),
    wants_person=st.booleans(),
)
def test_a_release_is_never_more_than_the_difference_and_never_turns_its_sign(
    unit_seconds: int, holding: DisputedUsage, *, is_vouched_for: bool, wants_person: bool
) -> None:
    release = release_of(
        unit_seconds, holding=holding, is_vouched_for=is_vouched_for, wants_person=wants_person
    )

    assert min(0, unit_seconds) <= release.unit_seconds <= max(0, unit_seconds)
    assert release.wants_person or not wants_person
