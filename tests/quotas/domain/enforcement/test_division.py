"""How one limit is spread over several namespaces."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.enforcement.division import (
    AskedUnits,
    ClusterNamespace,
    NamespaceShare,
    cover_asked,
    divide_limit,
    settle_shares,
    share_units,
    split_largest_remainder,
)

A, B, C = (ClusterNamespace("hopper", name) for name in ("a", "b", "c"))
PLACES = st.builds(
    ClusterNamespace, st.sampled_from(["ampere", "hopper"]), st.sampled_from(["a", "b", "c", "d"])
)
UNITS = st.integers(min_value=0, max_value=40)
AT = datetime(2026, 11, 2, tzinfo=UTC)
ASKED = st.lists(
    st.builds(
        AskedUnits,
        st.integers(0, 9).map(lambda minutes: AT + timedelta(minutes=minutes)),
        st.integers(min_value=1, max_value=12),
        st.integers(min_value=1, max_value=5),
    ),
    max_size=3,
).map(tuple)
PARTS = st.dictionaries(
    PLACES, st.builds(NamespaceShare, UNITS, UNITS, UNITS, asked=ASKED), max_size=6
)


def arrived(
    parts: dict[ClusterNamespace, NamespaceShare], reported: dict[ClusterNamespace, int]
) -> dict[ClusterNamespace, NamespaceShare]:
    """Return the parts once the cluster was read and says what it was reported."""
    return {
        p: NamespaceShare(part.used_units, reported[p], reported[p]) for p, part in parts.items()
    }


def sent(
    parts: dict[ClusterNamespace, NamespaceShare], reported: dict[ClusterNamespace, int]
) -> dict[ClusterNamespace, NamespaceShare]:
    """Return the parts while nothing that was reported has been seen to arrive."""
    return {
        p: NamespaceShare(part.used_units, reported[p], max(part.ceiling_units, reported[p]))
        for p, part in parts.items()
    }


def test_one_namespace_gets_the_whole_limit() -> None:
    assert divide_limit(8, {A: NamespaceShare(used_units=3)}) == {A: 8}


def test_no_namespace_gets_nothing() -> None:
    assert divide_limit(8, {}) == {}


def test_idle_namespaces_share_evenly_and_the_odd_unit_goes_to_the_first_by_name() -> None:
    assert share_units(8, {C: 0, B: 0, A: 0}) == {A: 3, B: 3, C: 2}


def test_what_is_held_stays_covered_and_the_spare_follows_use() -> None:
    assert share_units(10, {A: 5, B: 0}) == {A: 9, B: 1}


def test_a_lowered_limit_is_shared_in_proportion_to_use() -> None:
    assert share_units(4, {A: 6, B: 2}) == {A: 3, B: 1}


@given(limit=UNITS, used=st.dictionaries(PLACES, UNITS, min_size=1))
def test_shares_add_up_to_the_limit_and_cover_use_while_they_can(
    limit: int, used: dict[ClusterNamespace, int]
) -> None:
    shares = share_units(limit, used)

    assert sum(shares.values()) == limit
    assert min(shares.values()) >= 0
    if sum(used.values()) <= limit:
        assert all(shares[place] >= used[place] for place in used)


@given(
    total=UNITS,
    weights=st.dictionaries(PLACES, UNITS, min_size=1).filter(lambda w: sum(w.values()) > 0),
)
def test_each_part_lies_within_one_unit_of_its_exact_share(
    total: int, weights: dict[ClusterNamespace, int]
) -> None:
    parts = split_largest_remainder(total, weights)
    weight_sum = sum(weights.values())

    assert sum(parts.values()) == total
    for place, part in parts.items():
        assert abs(part * weight_sum - total * weights[place]) < weight_sum


def test_a_division_with_room_everywhere_does_not_follow_every_pod() -> None:
    parts = {A: NamespaceShare(3, 5, 5), B: NamespaceShare(1, 3, 3)}

    assert divide_limit(8, parts) == {A: 5, B: 3}


def test_a_full_namespace_gets_what_another_can_spare_once_that_has_been_lowered() -> None:
    parts = {A: NamespaceShare(5, 5, 5), B: NamespaceShare(0, 3, 3)}

    first = divide_limit(8, parts)
    second = divide_limit(8, arrived(parts, first))

    assert first == {A: 5, B: 0}
    assert second == {A: 8, B: 0}


def test_a_raise_that_was_sent_and_not_seen_counts_as_said() -> None:
    parts = {A: NamespaceShare(0, 2, 6), B: NamespaceShare(0, 2, 2)}

    assert divide_limit(8, parts) == {A: 4, B: 2}


@given(limit=UNITS, parts=PARTS)
def test_dividing_never_lets_the_ceilings_add_up_to_more_because_of_it(
    limit: int, parts: dict[ClusterNamespace, NamespaceShare]
) -> None:
    reported = divide_limit(limit, parts)
    before = sum(part.ceiling_units for part in parts.values())
    after = sum(part.ceiling_units for part in sent(parts, reported).values())

    assert after <= max(limit, before)
    assert sum(reported.values()) <= max(limit, 0)


@given(limit=UNITS, parts=PARTS.filter(bool))
def test_once_everything_arrives_the_limit_is_divided_in_full_and_stays_so(
    limit: int, parts: dict[ClusterNamespace, NamespaceShare]
) -> None:
    for _ in range(3):
        reported = divide_limit(limit, parts)
        parts = arrived(parts, reported)

    assert sum(reported.values()) == limit
    assert divide_limit(limit, parts) == reported


@given(limit=UNITS, parts=PARTS)
def test_the_order_in_which_places_are_known_does_not_matter(
    limit: int, parts: dict[ClusterNamespace, NamespaceShare]
) -> None:
    turned = dict(reversed(list(parts.items())))

    assert divide_limit(limit, parts) == divide_limit(limit, turned)


def test_nothing_is_split_among_nobody() -> None:
    assert split_largest_remainder(5, {}) == {}


def test_a_cap_gives_the_rest_to_the_others_and_what_is_held_beyond_to_nobody() -> None:
    assert share_units(8, {A: 0, B: 0}, {A: 2, B: None}) == {A: 2, B: 6}
    assert share_units(8, {A: 6, B: 0}, {A: 0}) == {A: 0, B: 2}
    assert share_units(8, {A: 0, B: 0}, {A: 2, B: 3}) == {A: 2, B: 3}


def test_a_division_above_a_cap_does_not_stay_although_it_adds_up() -> None:
    parts = {A: NamespaceShare(0, 3, 3, cap_units=2), B: NamespaceShare(0, 3, 3)}

    assert settle_shares(6, parts) == {A: 2, B: 4}
    assert divide_limit(6, parts) == {A: 2, B: 3}


def asking(pod_units: int, pods: int = 1, *, minute: int = 0) -> tuple[AskedUnits, ...]:
    return (AskedUnits(AT + timedelta(minutes=minute), pod_units, pods),)


def test_spare_units_move_to_a_namespace_whose_pod_was_refused_although_it_is_not_full() -> None:
    parts = {
        A: NamespaceShare(0, wanted_units=5, ceiling_units=5),
        B: NamespaceShare(0, wanted_units=4, ceiling_units=4, asked=asking(6)),
    }

    lowered = divide_limit(9, parts)
    raised = divide_limit(9, {**parts, A: NamespaceShare(0, lowered[A], lowered[A])})

    assert lowered[B] == 4
    assert raised == {A: lowered[A], B: 9 - lowered[A]}
    assert raised[B] >= 6


def test_a_division_that_serves_what_was_refused_stays() -> None:
    parts = {
        A: NamespaceShare(1, wanted_units=3, ceiling_units=3),
        B: NamespaceShare(0, wanted_units=6, ceiling_units=6, asked=asking(6)),
    }

    assert divide_limit(9, parts) == {A: 3, B: 6}


def test_what_was_refused_first_comes_first_and_what_does_not_fit_is_left_out() -> None:
    parts = {
        A: NamespaceShare(2, asked=asking(6, minute=1)),
        B: NamespaceShare(0, asked=asking(4, minute=2)),
        C: NamespaceShare(0, asked=asking(9, minute=0)),
    }

    assert cover_asked(9, parts) == {A: 8, B: 0, C: 0}
    assert cover_asked(7, parts) == {A: 2, B: 4, C: 0}


def test_no_pod_gets_a_part_of_its_units() -> None:
    assert cover_asked(9, {A: NamespaceShare(0, asked=asking(4, pods=3))}) == {A: 8}


def test_a_narrower_limit_bounds_what_moves() -> None:
    assert cover_asked(9, {A: NamespaceShare(0, cap_units=5, asked=asking(2, pods=4))}) == {A: 4}


@given(limit=UNITS, parts=PARTS)
def test_what_is_refused_never_takes_what_is_used_nor_lifts_the_sum(
    limit: int, parts: dict[ClusterNamespace, NamespaceShare]
) -> None:
    needed = cover_asked(limit, parts)
    shares = settle_shares(limit, parts)

    assert all(needed[place] >= part.used_units for place, part in parts.items())
    if sum(part.used_units for part in parts.values()) <= limit:
        assert sum(needed.values()) <= limit
        assert all(shares[place] >= needed[place] for place in parts)
    assert sum(shares.values()) == (limit if parts else 0)
