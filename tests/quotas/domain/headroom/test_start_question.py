"""Whether a pod may start now, and which limit says no first."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.headroom.start import (
    LimitHeadroom,
    StartCode,
    StartVerdict,
    judge_start,
    start_text,
    visible_free_units,
)

ROOM = LimitHeadroom(UUID(int=1), "project", "llm", "", "", 8, 4, 2)
FULL = replace(ROOM, limit_id=UUID(int=2), scope="organization", holder="acme", limit_units=6)
counts = st.integers(min_value=0, max_value=20)
headrooms = st.lists(
    st.builds(
        LimitHeadroom,
        limit_id=st.uuids(),
        scope=st.just("project"),
        holder=st.just("llm"),
        model_group=st.just(""),
        cluster=st.just(""),
        limit_units=st.none() | counts,
        used_units=counts,
        reserved_units=counts,
        is_allowance_used=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def ask(*limits: LimitHeadroom, units: int = 2, **state: bool) -> StartVerdict:
    reported = {"is_governed": True, "is_suspended": False, **state}
    return judge_start(limits, units=units, **reported)


def test_what_fits_under_every_limit_may_start() -> None:
    assert ask(ROOM) == StartVerdict(StartCode.FITS, 2)
    assert ask(ROOM).fits
    assert ask(replace(ROOM, limit_units=None), units=99) == StartVerdict(StartCode.FITS, None)


def test_the_first_limit_without_room_is_named() -> None:
    assert ask(ROOM, FULL, units=1) == StartVerdict(StartCode.LIMIT_REACHED, 0, FULL)
    assert ask(FULL, ROOM, units=3) == StartVerdict(StartCode.LIMIT_REACHED, 0, FULL)
    assert ask(ROOM, units=3) == StartVerdict(StartCode.LIMIT_REACHED, 2, ROOM)


def test_an_exceeded_limit_has_no_room_rather_than_less() -> None:
    over = replace(ROOM, limit_units=3)

    assert (over.headroom_units, over.free_units) == (-3, 0)


def test_a_used_up_allowance_blocks_although_there_is_room() -> None:
    used = replace(ROOM, is_allowance_used=True)

    assert ask(used) == StartVerdict(StartCode.ALLOWANCE_USED, 0, used)
    assert ask(used, units=3) == StartVerdict(StartCode.LIMIT_REACHED, 0, used)


def test_a_tenant_nobody_decided_about_is_let_in_and_a_governed_one_is_not() -> None:
    assert ask(is_governed=False) == StartVerdict(StartCode.FITS_UNGOVERNED, None)
    assert ask() == StartVerdict(StartCode.NOTHING_GRANTED, 0)
    assert ask(ROOM, is_suspended=True) == StartVerdict(StartCode.SUSPENDED, 0)


@given(limits=headrooms, units=st.integers(min_value=1, max_value=20))
def test_exactly_the_free_units_fit(limits: list[LimitHeadroom], units: int) -> None:
    verdict = ask(*limits, units=units)

    assert verdict.fits == (verdict.free_units is None or units <= verdict.free_units)
    assert (verdict.blocker is None) == verdict.fits
    if verdict.blocker is not None:
        place = limits.index(verdict.blocker)
        assert not any(limit.blocks(units) for limit in limits[:place])


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (ask(ROOM), "2 Medium may start now."),
        (ask(is_governed=False), "2 Medium may start: nobody has set a limit for this tenant."),
        (ask(is_suspended=True), "Nothing may start: the tenant is suspended until it is resumed."),
        (ask(), "2 Medium may not start: no limit grants this size here."),
        (
            ask(FULL),
            "2 Medium may not start: the organization acme holds 4 and has reserved 2 of 6.",
        ),
        (
            ask(replace(ROOM, is_allowance_used=True)),
            "2 Medium may not start: the project llm has used its unit-hours of this month.",
        ),
    ],
)
def test_the_answer_is_reported_in_a_sentence(verdict: StartVerdict, words: str) -> None:
    assert start_text(verdict, size="medium", units=2) == words


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (FULL, "2 Medium may not start: the organization acme has no room left for as many."),
        (
            replace(FULL, limit_units=None, is_allowance_used=True),
            "2 Medium may not start: the organization acme has used its unit-hours of this month.",
        ),
    ],
)
def test_a_hidden_scope_is_named_without_its_figures(limit: LimitHeadroom, words: str) -> None:
    reported = start_text(ask(limit), size="medium", units=2, hidden_scopes={"organization"})

    assert reported == words


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ((ROOM,), 2),
        ((ROOM, FULL), None),
        ((ROOM, replace(FULL, limit_units=99)), 2),
        ((ROOM, replace(FULL, limit_units=None)), 2),
        ((replace(ROOM, limit_units=None), replace(FULL, limit_units=None)), None),
        ((ROOM, replace(FULL, limit_units=99, is_allowance_used=True)), 0),
        ((), 0),
    ],
)
def test_free_units_are_reported_where_no_hidden_scope_decides_them(
    limits: tuple[LimitHeadroom, ...], expected: int | None
) -> None:
    reported = visible_free_units(ask(*limits, units=1), limits, hidden_scopes={"organization"})

    assert reported == expected


@given(limits=headrooms, units=st.integers(min_value=1, max_value=20))
def test_who_reads_every_scope_is_reported_the_free_units(
    limits: list[LimitHeadroom], units: int
) -> None:
    verdict = ask(*limits, units=units)

    assert visible_free_units(verdict, limits) == verdict.free_units
