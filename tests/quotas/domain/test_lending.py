"""Which project could lend idle units to one that waits."""

from collections import Counter
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.lending import (
    LendingCapacity,
    LoanBand,
    LoanOffer,
    Wait,
    kept_units,
    match_offers,
    missing_units,
    spare_units,
)

A, B, C, D = (UUID(int=number) for number in range(1, 5))
BAND = LoanBand(max_units=8, max_days=7, keep_free_percent=20)
counts = st.integers(min_value=0, max_value=40)
capacities_of_projects = st.lists(
    st.builds(
        LendingCapacity,
        project_id=st.sampled_from((A, B, C, D)),
        limit_units=counts,
        taken_units=counts,
        peak_units=counts,
        promised_units=counts,
        ceiling_units=st.none() | counts,
        may_lend=st.booleans(),
        borrowed_units=counts,
    ),
    unique_by=lambda capacity: capacity.project_id,
)
waits_of_projects = st.lists(
    st.builds(Wait, project_id=st.sampled_from((A, B, C, D)), wanted_units=counts),
    unique_by=lambda wait: wait.project_id,
)
bands = st.builds(
    LoanBand,
    max_units=st.integers(min_value=1, max_value=20),
    max_days=st.just(7),
    keep_free_percent=st.integers(min_value=0, max_value=100),
)


def test_a_lender_keeps_what_it_uses_and_a_share_of_its_limit() -> None:
    capacity = LendingCapacity(A, limit_units=11, taken_units=2, peak_units=4)

    assert kept_units(capacity, keep_free_percent=20) == 4 + 3
    assert spare_units(capacity, keep_free_percent=20) == 4
    assert spare_units(LendingCapacity(A, 11, 5, 4), keep_free_percent=20) == 3


def test_what_its_users_were_promised_is_not_spare() -> None:
    assert spare_units(LendingCapacity(A, 10, 0, 0, promised_units=9), keep_free_percent=0) == 1


def test_anyone_who_may_not_lend_spares_nothing() -> None:
    assert spare_units(LendingCapacity(A, 10, 0, 0, may_lend=False), keep_free_percent=0) == 0
    assert spare_units(LendingCapacity(A, 2, 5, 0), keep_free_percent=0) == 0


def test_what_is_free_already_is_not_missing() -> None:
    capacity = LendingCapacity(B, limit_units=8, taken_units=6, peak_units=0)

    assert missing_units(capacity, Wait(B, 5)) == 3
    assert missing_units(capacity, Wait(B, 2)) == 0
    assert missing_units(LendingCapacity(B, 8, 12, 0), Wait(B, 2)) == 2


def test_a_limit_grows_no_higher_than_the_one_above() -> None:
    assert missing_units(LendingCapacity(B, 8, 8, 0, ceiling_units=10), Wait(B, 5)) == 2
    assert missing_units(LendingCapacity(B, 8, 8, 0, ceiling_units=7), Wait(B, 5)) == 0


def test_the_largest_need_is_met_first_by_anyone_who_spares_most() -> None:
    capacities = [
        LendingCapacity(A, 10, 0, 0),
        LendingCapacity(B, 20, 8, 0),
        LendingCapacity(C, 4, 4, 0),
        LendingCapacity(D, 2, 2, 0),
    ]

    offers = match_offers(capacities, [Wait(D, 3), Wait(C, 6)], band=BAND)

    assert offers == (LoanOffer(A, C, 6), LoanOffer(B, D, 3))


def test_a_second_lender_helps_and_all_loans_together_stay_within_the_band() -> None:
    capacities = [
        LendingCapacity(A, 7, 0, 0),
        LendingCapacity(B, 10, 4, 0),
        LendingCapacity(C, 4, 4, 0),
    ]

    assert match_offers(capacities, [Wait(C, 7)], band=BAND) == (
        LoanOffer(A, C, 5),
        LoanOffer(B, C, 2),
    )
    assert match_offers(capacities, [Wait(C, 12)], band=BAND) == (
        LoanOffer(A, C, 5),
        LoanOffer(B, C, 3),
    )


def test_what_is_borrowed_already_counts() -> None:
    lender = LendingCapacity(A, 40, 0, 0)

    offers = [
        match_offers(
            [lender, LendingCapacity(C, 9, 9, 0, borrowed_units=borrowed)], [Wait(C, 12)], band=BAND
        )
        for borrowed in (5, 8, 9)
    ]

    assert offers == [(LoanOffer(A, C, 3),), (), ()]


def test_anyone_who_waits_does_not_lend_and_strangers_get_nothing() -> None:
    capacities = [LendingCapacity(A, 20, 0, 0), LendingCapacity(B, 4, 4, 0)]

    assert match_offers(capacities, [Wait(A, 0), Wait(B, 4)], band=BAND) == ()
    assert match_offers(capacities, [Wait(C, 4)], band=BAND) == ()


@given(capacities=capacities_of_projects, waits=waits_of_projects, band=bands)
def test_loans_conserve_units_and_leave_every_project_what_it_needs(
    capacities: list[LendingCapacity], waits: list[Wait], band: LoanBand
) -> None:
    offers = match_offers(capacities, waits, band=band)

    lent, borrowed = Counter[UUID](), Counter[UUID]()
    for offer in offers:
        assert 1 <= offer.units <= band.max_units
        lent[offer.lender_id] += offer.units
        borrowed[offer.borrower_id] += offer.units
    assert not set(lent) & set(borrowed)
    wanted = {wait.project_id: wait for wait in waits}
    after = 0
    for capacity in capacities:
        units = capacity.limit_units - lent[capacity.project_id] + borrowed[capacity.project_id]
        after += units
        if lent[capacity.project_id]:
            assert capacity.may_lend
            assert units >= kept_units(capacity, keep_free_percent=band.keep_free_percent)
        if borrowed[capacity.project_id]:
            assert capacity.ceiling_units is None or units <= capacity.ceiling_units
            assert borrowed[capacity.project_id] <= missing_units(
                capacity, wanted[capacity.project_id]
            )
            assert borrowed[capacity.project_id] + capacity.borrowed_units <= band.max_units
    assert after == sum(capacity.limit_units for capacity in capacities)
