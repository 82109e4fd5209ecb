"""A window moves only as the table says."""

import pytest

from metering.domain.collection.windows import MOVES, WindowState, may_move, states_before


def test_every_state_has_its_moves() -> None:
    assert set(MOVES) == set(WindowState)


def test_nothing_follows_sealed() -> None:
    assert MOVES[WindowState.SEALED] == frozenset()
    assert states_before(WindowState.SEALED) == (WindowState.RECONCILED,)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (WindowState.OPEN, WindowState.COLLECTING, True),
        (WindowState.OPEN, WindowState.COLLECTED, False),
        (WindowState.COLLECTING, WindowState.COLLECTING, True),
        (WindowState.COLLECTED, WindowState.SEALED, False),
        (WindowState.RECONCILED, WindowState.OPEN, True),
        (WindowState.GAP, WindowState.SEALED, False),
    ],
)
def test_a_move_is_in_the_table_or_not(
    before: WindowState, after: WindowState, *, expected: bool
) -> None:
    assert may_move(before, after=after) is expected


def test_what_waits_for_a_person_can_be_metered_again_or_waived() -> None:
    assert states_before(WindowState.OPEN) == (
        WindowState.COLLECTING,
        WindowState.COLLECTED,
        WindowState.RECONCILED,
        WindowState.GAP,
        WindowState.QUARANTINED,
    )
