"""What always holds when two sources are made one."""

import itertools
from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.allocations.timeline import EndKind, OpenInterval
from metering.domain.collection.reconciliation import Reconciled, SourceAccount, SourceVerdict
from tests.support.metering.accounts import (
    LAST_LOOK,
    at,
    compare,
    reported,
    share,
    span,
)

# ---------------------------------------------------------------- what always holds


@st.composite
def accounts(draw: st.DrawFn) -> SourceAccount:
    begin = draw(st.integers(-4000, 4000))
    kind = draw(st.sampled_from(EndKind))
    length = draw(st.integers(0, 6000))
    slack = draw(st.integers(0, 2000)) if "vanished" in kind.value else 0
    end = None if kind is EndKind.OPEN else begin + length
    return reported(
        begin,
        end,
        kind,
        slack=slack,
        units=draw(st.integers(1, 3)),
        known_until=begin + length if kind is EndKind.OPEN else LAST_LOOK,
    )


@st.composite
def eyes(draw: st.DrawFn) -> tuple[OpenInterval, ...]:
    edges = sorted(draw(st.lists(st.integers(-4000, 9000), max_size=8, unique=True)))
    return tuple(span(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False))


maybe = st.none() | accounts()


@st.composite
def pairs(draw: st.DrawFn) -> tuple[SourceAccount | None, SourceAccount | None]:
    kubernetes = draw(maybe)
    return kubernetes, draw(accounts() if kubernetes is None else maybe)


def seconds_of(found: Reconciled, start: int, end: int) -> tuple[int, int]:
    part = share(found, start, end)
    return (part.interval.seconds if part.interval else 0), part.held_seconds


def latest(account: SourceAccount) -> datetime:
    return account.end_not_after or at(99_999)


@given(pairs(), eyes(), eyes())
def test_billed_and_held_are_within_what_the_sources_tell(
    pair: tuple[SourceAccount | None, SourceAccount | None],
    watch: tuple[OpenInterval, ...],
    scrapes: tuple[OpenInterval, ...],
) -> None:
    found = compare(*pair, watch=watch, scrapes=scrapes)

    known = [account for account in pair if account is not None]
    begin = min(account.life.begin_at for account in known)
    end = max(latest(account) for account in known)
    total = sum(seconds_of(found, -10_000, 20_000))
    assert total <= (min(end, at(20_000)) - begin).total_seconds()
    for disputed in found.disputed:
        assert disputed.begin_at >= begin
        if found.billed is not None:
            is_before = disputed.end_at is not None and disputed.end_at <= found.billed.begin_at
            is_after = found.billed.end_at is not None and disputed.begin_at >= found.billed.end_at
            assert is_before or is_after


@given(accounts(), accounts())
def test_a_difference_bills_and_holds_the_same_anyone_who_shows_which(
    one: SourceAccount, other: SourceAccount
) -> None:
    first, second = compare(one, other), compare(other, one)

    assert (first.verdict is SourceVerdict.DIFFERS) is (second.verdict is SourceVerdict.DIFFERS)
    if first.verdict is SourceVerdict.DIFFERS:
        assert seconds_of(first, -10_000, 20_000) == seconds_of(second, -10_000, 20_000)


@given(accounts(), accounts())
def test_agreement_bills_the_apis_exact_seconds_and_holds_nothing(
    kubernetes: SourceAccount, prometheus: SourceAccount
) -> None:
    found = compare(kubernetes, prometheus)

    if found.verdict in {SourceVerdict.AGREED, SourceVerdict.REQUEST_DIFFERS}:
        assert found.disputed == ()
        assert found.units == kubernetes.units
        if kubernetes.life.end_kind is EndKind.EXACT:
            assert found.billed == kubernetes.life


@given(pairs(), eyes(), eyes(), st.lists(st.integers(-3999, 8999), max_size=5, unique=True))
def test_consecutive_windows_add_up(
    pair: tuple[SourceAccount | None, SourceAccount | None],
    watch: tuple[OpenInterval, ...],
    scrapes: tuple[OpenInterval, ...],
    cuts: list[int],
) -> None:
    found = compare(*pair, watch=watch, scrapes=scrapes)
    edges = [-4000, *sorted(cuts), 9000]

    parts = [seconds_of(found, a, b) for a, b in itertools.pairwise(edges)]

    whole = seconds_of(found, -4000, 9000)
    assert tuple(map(sum, zip(*parts, strict=True))) == whole


@given(accounts(), maybe)
def test_what_the_api_knows_exactly_is_never_billed_longer_unless_a_person_says_so(
    kubernetes: SourceAccount, prometheus: SourceAccount | None
) -> None:
    found = compare(kubernetes, prometheus)

    if kubernetes.life.end_kind is EndKind.EXACT and found.billed is not None:
        assert found.billed.end_at is not None
        assert kubernetes.life.end_at is not None
        assert found.billed.end_at <= kubernetes.life.end_at
        assert found.billed.begin_at >= kubernetes.life.begin_at
