"""More use is believed, less only with a proof, and what is not seen says nothing."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.correction import (
    Comparison,
    Difference,
    Held,
    Known,
    UsageKey,
    compare,
    digest_of_lines,
    stays_above_zero,
)

A: UsageKey = ("a", "nvidia.com/gpu")
B: UsageKey = ("b", "nvidia.com/gpu")
NOTHING = Comparison(differences=(), unproven_unit_seconds=0, unseen=0)


def test_what_is_the_same_needs_no_correction() -> None:
    assert compare({A: Known(60)}, {A: Held(60)}) == NOTHING
    assert compare({A: Known(0)}, {}) == NOTHING


def test_what_the_ledger_lacks_is_added_by_key() -> None:
    found = compare({B: Known(10), A: Known(60)}, {A: Held(50)})

    assert found.differences == (
        Difference(A, 10, wants_person=False),
        Difference(B, 10, wants_person=False),
    )


def test_less_is_proposed_only_when_the_api_told_a_better_end() -> None:
    proof, exact = Known(40, is_proof=True), Held(60, is_exact=True)

    assert compare({A: proof}, {A: Held(60)}).differences == (
        Difference(A, -20, wants_person=True),
    )
    assert compare({A: Known(40)}, {A: Held(60)}) == Comparison((), 20, 0)
    assert compare({A: proof}, {A: exact}) == Comparison((), 20, 0)


def test_less_is_proposed_when_a_person_accepted_the_evidence() -> None:
    decided = Known(0, is_decided=True)

    assert compare({A: decided}, {A: Held(60, is_exact=True)}).differences == (
        Difference(A, -60, wants_person=True),
    )


def test_what_nobody_tells_any_more_stays() -> None:
    assert compare({}, {A: Held(60), B: Held(5)}) == Comparison((), 0, 2)


def test_what_a_person_corrected_is_left_to_persons() -> None:
    settled = Held(60, is_settled_by_person=True)

    assert compare({A: Known(70)}, {A: settled}).differences == (
        Difference(A, 10, wants_person=True),
    )


@given(
    known=st.dictionaries(
        st.sampled_from([A, B]), st.builds(Known, st.integers(0, 99), is_proof=st.booleans())
    ),
    held=st.dictionaries(
        st.sampled_from([A, B]),
        st.builds(
            Held, st.integers(0, 99), is_exact=st.booleans(), is_settled_by_person=st.booleans()
        ),
    ),
)
def test_nothing_is_taken_away_by_itself_and_a_second_look_finds_nothing(
    known: dict[UsageKey, Known], held: dict[UsageKey, Held]
) -> None:
    found = compare(known, held)

    assert all(d.unit_seconds > 0 or d.wants_person for d in found.differences)
    after = dict(held)
    for difference in found.differences:
        before = held.get(difference.key, Held(0))
        total = before.metered_unit_seconds + difference.unit_seconds
        assert total == known[difference.key].unit_seconds
        after[difference.key] = Held(total, before.is_exact, before.is_settled_by_person)
    assert compare(known, after).differences == ()


def test_lines_stay_above_zero_each_for_itself() -> None:
    assert stays_above_zero([{"basis": 60, "unit_seconds": -60}, {"basis": 0, "unit_seconds": 1}])
    assert not stays_above_zero(
        [{"basis": 60, "unit_seconds": -61}, {"basis": 9, "unit_seconds": 1}]
    )


def test_the_digest_depends_on_values_and_their_order_alone() -> None:
    first, second = {"pod": "ä", "unit_seconds": 1}, {"unit_seconds": 1, "pod": "ä"}

    assert digest_of_lines([first]) == digest_of_lines([second])
    assert (
        digest_of_lines([first])
        == hashlib.sha256('[{"pod":"ä","unit_seconds":1}]'.encode()).hexdigest()
    )
    assert digest_of_lines([first, {}]) != digest_of_lines([{}, first])
