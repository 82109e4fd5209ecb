"""More use is believed, less only with a proof, and what is not seen says nothing."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.corrections.correction import (
    Held,
    Known,
    RecheckComparison,
    UsageDifference,
    UsageKey,
    compare,
    digest_of_lines,
    stays_above_zero,
)

A: UsageKey = ("a", "nvidia.com/gpu")
B: UsageKey = ("b", "nvidia.com/gpu")
P1: UsageKey = ("p1", "claim/c1/gpu.nvidia.com")
P2: UsageKey = ("p2", "claim/c1/gpu.nvidia.com")
NOBODYS: UsageKey = ("c1", "claim/c1/gpu.nvidia.com")
OTHER: UsageKey = ("p1", "claim/c1/mig.nvidia.com")
NOTHING = RecheckComparison(differences=(), unproven_unit_seconds=0, unseen=0)


def test_what_is_the_same_needs_no_correction() -> None:
    assert compare({A: Known(60)}, {A: Held(60)}) == NOTHING
    assert compare({A: Known(0)}, {}) == NOTHING


def test_what_the_ledger_lacks_is_added_by_key() -> None:
    found = compare({B: Known(10), A: Known(60)}, {A: Held(50)})

    assert found.differences == (
        UsageDifference(A, 10, wants_person=False),
        UsageDifference(B, 10, wants_person=False),
    )


def test_a_little_more_of_an_estimated_end_is_no_news() -> None:
    def more(unit_seconds: int, held: Held) -> RecheckComparison:
        return compare({A: Known(unit_seconds, jitter_unit_seconds=60)}, {A: held})

    assert more(660, Held(600)) == NOTHING
    assert more(661, Held(600)).differences == (UsageDifference(A, 61, wants_person=False),)
    assert more(60, Held(0)).differences == (UsageDifference(A, 60, wants_person=False),)
    assert more(590, Held(600)) == RecheckComparison((), 10, 0)


def test_the_parts_of_a_claim_do_not_jitter() -> None:
    known = {P1: Known(40, jitter_unit_seconds=60), P2: Known(40, jitter_unit_seconds=60)}

    found = compare(known, {P1: Held(30), P2: Held(30)})

    assert [item.unit_seconds for item in found.differences] == [10, 10]


def test_less_is_proposed_only_when_the_api_reported_a_better_end() -> None:
    proof, exact = Known(40, is_proof=True), Held(60, is_exact=True)

    assert compare({A: proof}, {A: Held(60)}).differences == (
        UsageDifference(A, -20, wants_person=True),
    )
    assert compare({A: Known(40)}, {A: Held(60)}) == RecheckComparison((), 20, 0)
    assert compare({A: proof}, {A: exact}) == RecheckComparison((), 20, 0)


def test_less_is_proposed_when_a_person_accepted_the_evidence() -> None:
    decided = Known(0, is_decided=True)

    assert compare({A: decided}, {A: Held(60, is_exact=True)}).differences == (
        UsageDifference(A, -60, wants_person=True),
    )


def test_what_nobody_shows_any_more_stays() -> None:
    assert compare({}, {A: Held(60), B: Held(5)}) == RecheckComparison((), 0, 2)


def test_what_a_person_corrected_is_left_to_persons() -> None:
    settled = Held(60, is_settled_by_person=True)

    assert compare({A: Known(70)}, {A: settled}).differences == (
        UsageDifference(A, 10, wants_person=True),
    )


def by_key(found: RecheckComparison) -> list[tuple[str, int, bool]]:
    return [(d.key[0], d.unit_seconds, d.wants_person) for d in found.differences]


def test_what_moves_between_the_parts_of_a_claim_needs_no_proof() -> None:
    late = compare({P1: Known(1800), P2: Known(1800)}, {P1: Held(3600)})
    unknown = compare({P1: Known(3600)}, {NOBODYS: Held(3600)})

    assert by_key(late) == [("p1", -1800, False), ("p2", 1800, False)]
    assert by_key(unknown) == [("c1", -3600, False), ("p1", 3600, False)]
    assert (late.unproven_unit_seconds, unknown.unseen) == (0, 0)


def test_a_claim_that_held_less_needs_a_proof_like_a_pod() -> None:
    held = {P1: Held(3600)}
    less = {P1: Known(1000), P2: Known(1000)}
    proven = {key: Known(1000, is_proof=True) for key in less}

    assert compare(less, held) == RecheckComparison((), 1600, 0)
    assert compare(proven, {P1: Held(3600, is_exact=True)}) == RecheckComparison((), 1600, 0)
    assert by_key(compare(proven, held)) == [("p1", -2600, True), ("p2", 1000, True)]


def test_a_person_who_corrected_a_part_is_asked_about_the_whole_claim() -> None:
    held = {P1: Held(3600), P2: Held(0, is_settled_by_person=True)}

    found = compare({P1: Known(1800), P2: Known(1800)}, held)

    assert by_key(found) == [("p1", -1800, True), ("p2", 1800, True)]


def test_each_class_of_a_claim_is_judged_by_itself() -> None:
    found = compare({P1: Known(3600), OTHER: Known(10)}, {P1: Held(3600), OTHER: Held(20)})

    assert found == RecheckComparison((), 10, 0)


def test_a_claim_nobody_shows_of_any_more_stays() -> None:
    assert compare({}, {P1: Held(1800), P2: Held(1800)}) == RecheckComparison((), 0, 2)


PARTS = st.sampled_from([P1, P2, NOBODYS])


@given(
    known=st.dictionaries(PARTS, st.builds(Known, st.integers(0, 99), is_proof=st.booleans())),
    held=st.dictionaries(PARTS, st.builds(Held, st.integers(0, 99), is_exact=st.booleans())),
)
def test_all_of_a_claim_is_corrected_or_nothing(
    known: dict[UsageKey, Known], held: dict[UsageKey, Held]
) -> None:
    found = compare(known, held)

    net = sum(now.unit_seconds for now in known.values()) - sum(
        before.metered_unit_seconds for before in held.values()
    )
    if found.differences:
        assert sum(d.unit_seconds for d in found.differences) == net
        assert {d.wants_person for d in found.differences} == {net < 0}
        after = {
            key: Held(known[key].unit_seconds if key in known else 0) for key in {*known, *held}
        }
        assert compare(known, after).differences == ()


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
