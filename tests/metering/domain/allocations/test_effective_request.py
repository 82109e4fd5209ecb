"""The effective request is what the scheduler reserves."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import effective_units


@dataclass(frozen=True)
class Ask:
    kind: str
    units: int
    order: int | None = None


def regular(units: int) -> Ask:
    return Ask("regular", units)


def init(units: int, order: int | None = None) -> Ask:
    return Ask("init", units, order)


def sidecar(units: int, order: int | None = None) -> Ask:
    return Ask("sidecar", units, order)


def overhead(units: int) -> Ask:
    return Ask("overhead", units)


@pytest.mark.parametrize(
    ("asks", "units"),
    [
        ([], 0),
        ([regular(2), regular(1)], 3),
        ([regular(1), init(4)], 4),
        ([regular(4), init(1)], 4),
        ([regular(1), init(2), init(3)], 3),
        ([regular(1), sidecar(1)], 2),
        # A sidecar declared before an init container runs beside it, one declared after does not.
        ([regular(1), sidecar(1, 0), init(4, 1)], 5),
        ([regular(1), init(4, 0), sidecar(1, 1)], 4),
        ([regular(1), sidecar(1, 0), init(2, 1), sidecar(2, 2), init(3, 3)], 6),
        # Unknown order is the upper bound.
        ([regular(1), sidecar(1), init(4)], 5),
        ([regular(1), sidecar(1, 5), init(4)], 5),
        ([regular(1), sidecar(1), init(4, 0)], 5),
        # The overhead of a runtime class is added, whichever is larger.
        ([regular(2), overhead(1)], 3),
        ([regular(1), init(4), overhead(1)], 5),
        ([regular(2), regular(-1)], -1),
    ],
)
def test_the_request_is_the_larger_of_starting_and_running(asks: list[Ask], units: int) -> None:
    assert effective_units(asks) == units


asks = st.lists(
    st.builds(
        Ask,
        kind=st.sampled_from(["regular", "init", "sidecar", "overhead"]),
        units=st.integers(0, 16),
        order=st.none() | st.integers(0, 5),
    )
)


@given(asks)
def test_it_lies_between_what_runs_and_all_of_it(listed: list[Ask]) -> None:
    running = sum(ask.units for ask in listed if ask.kind != "init")

    assert running <= effective_units(listed) <= sum(ask.units for ask in listed)


@given(asks)
def test_not_knowing_the_order_never_lowers_it(listed: list[Ask]) -> None:
    unknown = [Ask(ask.kind, ask.units) for ask in listed]

    assert effective_units(listed) <= effective_units(unknown)


@given(asks, st.randoms())
def test_the_order_in_which_containers_are_reported_does_not_matter(
    listed: list[Ask], random: object
) -> None:
    shuffled = list(listed)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert effective_units(shuffled) == effective_units(listed)
