"""Two sources made one: what is billed, what is held, and that neither is counted twice."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.reconciliation import (
    Account,
    Eyes,
    Reconciled,
    Share,
    Side,
    Span,
    Verdict,
    eyes_of_ticks,
    reconcile,
    share_of,
    tolerance_seconds,
    visible_seconds,
)
from metering.domain.timeline import EndKind, Life

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)
TOLERANCE = 60
SHORT = 60
LAST_LOOK = 4500
"""Both sources have looked until here, in seconds from the hour's start."""


def at(seconds: int) -> datetime:
    return HOUR + timedelta(seconds=seconds)


def span(begin: int, end: int | None) -> Span:
    return Span(at(begin), None if end is None else at(end))


OPEN_EYES = (span(-600, LAST_LOOK),)


def told(
    begin: int,
    end: int | None,
    kind: EndKind | None = None,
    *,
    slack: int = 0,
    units: int = 1,
    known_until: int = LAST_LOOK,
) -> Account:
    how = kind or (EndKind.OPEN if end is None else EndKind.EXACT)
    life = Life(at(begin), None if end is None else at(end), how, slack)
    return Account(life=life, units=units, known_until_at=at(known_until))


def compare(
    kubernetes: Account | None,
    prometheus: Account | None,
    *,
    watch: tuple[Span, ...] = OPEN_EYES,
    scrapes: tuple[Span, ...] = OPEN_EYES,
    accepted: Side | None = None,
) -> Reconciled:
    return reconcile(
        kubernetes=kubernetes,
        prometheus=prometheus,
        eyes=Eyes(kubernetes=watch, prometheus=scrapes),
        tolerance=TOLERANCE,
        short_seconds=SHORT,
        accepted=accepted,
    )


def share(found: Reconciled, start: int = 0, end: int = 3600) -> Share:
    return share_of(found, start_at=at(start), end_at=at(end))


def billed(found: Reconciled) -> tuple[Verdict, int, int]:
    """Return verdict, billed seconds and held seconds within the hour."""
    part = share(found)
    return part.verdict, part.interval.seconds if part.interval else 0, part.held_seconds


# ---------------------------------------------------------------- the tolerance


@pytest.mark.parametrize(
    ("window", "scrape", "expected"), [(3600, 30, 60), (3600, 5, 18), (3600, 15, 30), (200, 1, 2)]
)
def test_the_tolerance_is_two_scrapes_or_half_a_percent_of_the_window(
    window: int, scrape: int, expected: int
) -> None:
    found = tolerance_seconds(window_seconds=window, scrape_interval_seconds=scrape)

    assert found == expected


# ---------------------------------------------------------------- both sources know of it


@pytest.mark.parametrize(
    ("kubernetes", "prometheus", "expected"),
    [
        # The API's seconds are billed while they are within the tolerance.
        (told(0, 1000), told(0, 1000), (Verdict.AGREED, 1000, 0)),
        (told(0, 1000), told(0, 1060), (Verdict.AGREED, 1000, 0)),
        (told(0, 1000), told(30, 1030), (Verdict.AGREED, 1000, 0)),
        (told(0, 1000), told(0, 1061), (Verdict.DIFFERS, 1000, 61)),
        (told(0, 1000), told(31, 1030), (Verdict.DIFFERS, 969, 61)),
        (told(-600, None), told(-600, None), (Verdict.AGREED, 3600, 0)),
        # What scrapes cannot know exactly agrees with everything inside its bounds.
        (told(0, 1000), told(0, 985, EndKind.VANISHED, slack=15), (Verdict.AGREED, 1000, 0)),
        (
            told(0, 1000),
            told(0, 700, EndKind.VANISHED_IN_GAP, slack=300),
            (Verdict.AGREED, 1000, 0),
        ),
        (
            told(0, 1000),
            told(0, 600, EndKind.VANISHED_IN_GAP, slack=300),
            (Verdict.DIFFERS, 600, 400),
        ),
        # One ended, the other goes on.
        (told(0, 1000), told(0, None), (Verdict.DIFFERS, 1000, 2600)),
        (told(0, None), told(0, 1000), (Verdict.DIFFERS, 1000, 2600)),
        # Nothing in common at all.
        (told(0, 500), told(1000, 1500), (Verdict.DIFFERS, 0, 1000)),
        (told(0, 500), told(500, 1500), (Verdict.DIFFERS, 0, 1500)),
        # A zero-length life is the API's word that nothing was held.
        (told(500, 500), told(500, 550), (Verdict.AGREED, 0, 0)),
        (told(500, 500), told(500, 600), (Verdict.DIFFERS, 0, 100)),
    ],
)
def test_what_two_sources_tell_is_made_one(
    kubernetes: Account, prometheus: Account, expected: tuple[Verdict, int, int]
) -> None:
    assert billed(compare(kubernetes, prometheus)) == expected


@pytest.mark.parametrize(
    ("kubernetes", "prometheus", "end", "kind", "slack"),
    [
        # A relist found it gone; a terminal phase or a scrape tells when.
        (
            told(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            told(0, 1500),
            1500,
            EndKind.EXACT,
            0,
        ),
        (
            told(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            told(0, 1500, EndKind.VANISHED, slack=15),
            1500,
            EndKind.VANISHED,
            15,
        ),
        # Two bounds narrow each other.
        (
            told(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            told(0, 900, EndKind.VANISHED_IN_GAP, slack=300),
            900,
            EndKind.VANISHED_IN_GAP,
            300,
        ),
        (
            told(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            told(0, 2300, EndKind.VANISHED_IN_GAP, slack=600),
            2300,
            EndKind.VANISHED_IN_GAP,
            100,
        ),
        (
            told(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            told(0, 2395, EndKind.VANISHED, slack=15),
            2395,
            EndKind.VANISHED,
            15,
        ),
        # The scrapes saw it until they stopped.
        (
            told(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            told(0, None, known_until=1200),
            1200,
            EndKind.VANISHED_IN_GAP,
            1200,
        ),
        # The watch is still away: what it knew last is no end.
        (told(0, None, known_until=600), told(0, 1500), 1500, EndKind.EXACT, 0),
        (
            told(0, None, known_until=600),
            told(0, 1500, EndKind.VANISHED_IN_GAP, slack=60),
            1500,
            EndKind.VANISHED_IN_GAP,
            60,
        ),
        # Apart, but within the tolerance: the better known one stands.
        (
            told(0, 600, EndKind.VANISHED_IN_GAP, slack=100),
            told(0, 740),
            740,
            EndKind.EXACT,
            0,
        ),
        (
            told(0, 600, EndKind.VANISHED_IN_GAP, slack=100),
            told(0, 740, EndKind.VANISHED, slack=15),
            740,
            EndKind.VANISHED,
            15,
        ),
    ],
)
def test_an_end_the_watch_missed_is_taken_from_prometheus(
    kubernetes: Account, prometheus: Account, end: int, kind: EndKind, slack: int
) -> None:
    found = compare(kubernetes, prometheus)

    assert found.verdict is Verdict.RECOVERED
    assert found.billed == Life(at(0), at(end), kind, slack)
    assert found.disputed == ()


def test_what_was_recovered_matters_only_in_the_hour_of_the_end() -> None:
    found = compare(told(-7200, 600, EndKind.VANISHED_IN_GAP, slack=1800), told(-7200, 1500))

    assert billed(found) == (Verdict.RECOVERED, 1500, 0)
    before = share(found, -3600, 0)
    assert (before.verdict, before.interval and before.interval.seconds) == (Verdict.AGREED, 3600)


def test_a_difference_is_held_in_the_hour_it_lies_in_only() -> None:
    found = compare(told(-7200, 1000), told(-7200, 2000))

    before, after = share(found, -3600, 0), share(found, 3600, 7200)
    assert (before.verdict, before.held_seconds) == (Verdict.AGREED, 0)
    assert (after.interval, after.held_seconds) == (None, 0)
    assert billed(found) == (Verdict.DIFFERS, 1000, 1000)


def test_a_different_request_is_told_and_the_apis_is_billed() -> None:
    found = compare(told(0, 1000, units=2), told(0, 1000, units=4))

    assert (found.verdict, found.units, found.is_request_different) == (
        Verdict.REQUEST_DIFFERS,
        2,
        True,
    )
    assert billed(found) == (Verdict.REQUEST_DIFFERS, 1000, 0)


def test_different_times_and_requests_are_both_told() -> None:
    found = compare(told(-7200, 1000, units=2), told(-7200, 2000, units=4))

    assert (found.verdict, found.units, found.is_request_different) == (Verdict.DIFFERS, 2, True)
    assert share(found, -3600, 0).verdict is Verdict.REQUEST_DIFFERS


# ---------------------------------------------------------------- only one source knows of it


def test_what_the_api_alone_tells_is_billed_and_told_when_scrapes_should_have_seen_it() -> None:
    assert billed(compare(told(0, 1000), None)) == (Verdict.KUBERNETES_ONLY, 1000, 0)
    assert billed(compare(told(0, 60), None)) == (Verdict.KUBERNETES_ONLY, 60, 0)
    assert billed(compare(told(-600, None), None)) == (Verdict.KUBERNETES_ONLY, 3600, 0)


@pytest.mark.parametrize(
    ("account", "scrapes"),
    [
        (told(0, 59), OPEN_EYES),
        (told(0, 1000), (span(-600, 59), span(1100, 4500))),
        (told(0, 1000), ()),
    ],
    ids=["shorter than two scrapes", "in a hole", "nobody scraped"],
)
def test_what_the_scrapes_could_miss_is_billed_in_silence(
    account: Account, scrapes: tuple[Span, ...]
) -> None:
    found = compare(account, None, scrapes=scrapes)

    assert found.verdict is Verdict.KUBERNETES_EXPLAINED
    assert found.billed == account.life


def test_what_only_prometheus_tells_is_held_while_the_watch_was_healthy() -> None:
    assert billed(compare(None, told(0, 1000))) == (Verdict.PROMETHEUS_ONLY, 0, 1000)
    assert billed(compare(None, told(-10, 5))) == (Verdict.PROMETHEUS_ONLY, 0, 5)
    assert billed(compare(None, told(0, None))) == (Verdict.PROMETHEUS_ONLY, 0, 3600)


@pytest.mark.parametrize(
    ("watch", "expected"),
    [
        ((), Verdict.RECOVERED),
        ((span(-600, 0), span(1000, 4500)), Verdict.RECOVERED),
        ((span(-600, 59), span(1000, 4500)), Verdict.RECOVERED),
        ((span(-600, 60), span(1000, 4500)), Verdict.PROMETHEUS_ONLY),
    ],
)
def test_what_the_watch_could_not_see_is_billed_as_recovered(
    watch: tuple[Span, ...], expected: Verdict
) -> None:
    found = compare(None, told(0, 1000), watch=watch)

    assert found.verdict is expected
    assert (found.billed is not None) is (expected is Verdict.RECOVERED)


def test_a_recovered_pod_is_recovered_in_every_hour() -> None:
    found = compare(None, told(-600, 4000), watch=())

    assert [share(found, start, start + 3600).verdict for start in (-3600, 0, 3600)] == [
        Verdict.RECOVERED
    ] * 3


def test_nobody_knowing_of_a_pod_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="nothing to reconcile"):
        compare(None, None)


# ---------------------------------------------------------------- a person accepts one side


@pytest.mark.parametrize(
    ("kubernetes", "prometheus", "side", "seconds", "units"),
    [
        (told(0, 1000, units=2), told(0, 2000, units=4), Side.KUBERNETES, 1000, 2),
        (told(0, 1000, units=2), told(0, 2000, units=4), Side.PROMETHEUS, 2000, 4),
        (None, told(0, 2000), Side.PROMETHEUS, 2000, 1),
        (None, told(0, 2000), Side.KUBERNETES, 0, 1),
        (told(0, 1000), None, Side.PROMETHEUS, 0, 1),
    ],
)
def test_an_accepted_side_is_billed_alone(
    kubernetes: Account | None,
    prometheus: Account | None,
    side: Side,
    seconds: int,
    units: int,
) -> None:
    found = compare(kubernetes, prometheus, accepted=side)

    assert billed(found) == (Verdict.ACCEPTED, seconds, 0)
    assert found.units == units


# ---------------------------------------------------------------- eyes


def test_eyes_close_where_scrapes_are_too_far_apart() -> None:
    ticks = [at(second) for second in (0, 30, 60, 135, 211, 241)]

    found = eyes_of_ticks(ticks, scrape_interval_seconds=30)

    assert found == (span(0, 135), span(211, 241))
    assert eyes_of_ticks([], scrape_interval_seconds=30) == ()
    assert eyes_of_ticks([at(5)], scrape_interval_seconds=30) == (span(5, 5),)


def test_visible_seconds_are_those_with_eyes_open() -> None:
    spans = (span(0, 100), span(200, 300), span(400, None))

    assert visible_seconds(told(50, 250), spans=spans) == 100
    assert visible_seconds(told(50, None, known_until=450), spans=spans) == 200
    assert visible_seconds(told(350, 390), spans=spans) == 0


# ---------------------------------------------------------------- what always holds


@st.composite
def accounts(draw: st.DrawFn) -> Account:
    begin = draw(st.integers(-4000, 4000))
    kind = draw(st.sampled_from(EndKind))
    length = draw(st.integers(0, 6000))
    slack = draw(st.integers(0, 2000)) if "vanished" in kind.value else 0
    end = None if kind is EndKind.OPEN else begin + length
    return told(
        begin,
        end,
        kind,
        slack=slack,
        units=draw(st.integers(1, 3)),
        known_until=begin + length if kind is EndKind.OPEN else LAST_LOOK,
    )


@st.composite
def eyes(draw: st.DrawFn) -> tuple[Span, ...]:
    edges = sorted(draw(st.lists(st.integers(-4000, 9000), max_size=8, unique=True)))
    return tuple(span(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False))


maybe = st.none() | accounts()


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Account | None, Account | None]:
    kubernetes = draw(maybe)
    return kubernetes, draw(accounts() if kubernetes is None else maybe)


def seconds_of(found: Reconciled, start: int, end: int) -> tuple[int, int]:
    part = share(found, start, end)
    return (part.interval.seconds if part.interval else 0), part.held_seconds


def latest(account: Account) -> datetime:
    return account.end_not_after or at(99_999)


@given(pairs(), eyes(), eyes())
def test_billed_and_held_are_within_what_the_sources_tell(
    pair: tuple[Account | None, Account | None], watch: tuple[Span, ...], scrapes: tuple[Span, ...]
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
def test_a_difference_bills_and_holds_the_same_whoever_tells_which(
    one: Account, other: Account
) -> None:
    first, second = compare(one, other), compare(other, one)

    assert (first.verdict is Verdict.DIFFERS) is (second.verdict is Verdict.DIFFERS)
    if first.verdict is Verdict.DIFFERS:
        assert seconds_of(first, -10_000, 20_000) == seconds_of(second, -10_000, 20_000)


@given(accounts(), accounts())
def test_agreement_bills_the_apis_exact_seconds_and_holds_nothing(
    kubernetes: Account, prometheus: Account
) -> None:
    found = compare(kubernetes, prometheus)

    if found.verdict in {Verdict.AGREED, Verdict.REQUEST_DIFFERS}:
        assert found.disputed == ()
        assert found.units == kubernetes.units
        if kubernetes.life.end_kind is EndKind.EXACT:
            assert found.billed == kubernetes.life


@given(pairs(), eyes(), eyes(), st.lists(st.integers(-3999, 8999), max_size=5, unique=True))
def test_consecutive_windows_add_up(
    pair: tuple[Account | None, Account | None],
    watch: tuple[Span, ...],
    scrapes: tuple[Span, ...],
    cuts: list[int],
) -> None:
    found = compare(*pair, watch=watch, scrapes=scrapes)
    edges = [-4000, *sorted(cuts), 9000]

    parts = [seconds_of(found, a, b) for a, b in itertools.pairwise(edges)]

    whole = seconds_of(found, -4000, 9000)
    assert tuple(map(sum, zip(*parts, strict=True))) == whole


@given(accounts(), maybe)
def test_what_the_api_knows_exactly_is_never_billed_longer_unless_a_person_says_so(
    kubernetes: Account, prometheus: Account | None
) -> None:
    found = compare(kubernetes, prometheus)

    if kubernetes.life.end_kind is EndKind.EXACT and found.billed is not None:
        assert found.billed.end_at is not None
        assert kubernetes.life.end_at is not None
        assert found.billed.end_at <= kubernetes.life.end_at
        assert found.billed.begin_at >= kubernetes.life.begin_at
