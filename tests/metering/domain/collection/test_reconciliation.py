"""Two sources made one: what is billed, what is held, and that neither is counted twice."""

import pytest

from metering.domain.allocations.timeline import EndKind, Life, OpenInterval
from metering.domain.collection.reconciliation import (
    Accepted,
    Side,
    SourceAccount,
    SourceVerdict,
    tolerance_seconds,
)
from tests.support.metering.accounts import (
    OPEN_EYES,
    at,
    billed,
    compare,
    reported,
    share,
    span,
)

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
        (reported(0, 1000), reported(0, 1000), (SourceVerdict.AGREED, 1000, 0)),
        (reported(0, 1000), reported(0, 1060), (SourceVerdict.AGREED, 1000, 0)),
        (reported(0, 1000), reported(30, 1030), (SourceVerdict.AGREED, 1000, 0)),
        (reported(0, 1000), reported(0, 1061), (SourceVerdict.DIFFERS, 1000, 61)),
        (reported(0, 1000), reported(31, 1030), (SourceVerdict.DIFFERS, 969, 61)),
        (reported(-600, None), reported(-600, None), (SourceVerdict.AGREED, 3600, 0)),
        # What scrapes cannot know exactly agrees with everything inside its bounds.
        (
            reported(0, 1000),
            reported(0, 985, EndKind.VANISHED, slack=15),
            (SourceVerdict.AGREED, 1000, 0),
        ),
        (
            reported(0, 1000),
            reported(0, 700, EndKind.VANISHED_IN_GAP, slack=300),
            (SourceVerdict.AGREED, 1000, 0),
        ),
        (
            reported(0, 1000),
            reported(0, 600, EndKind.VANISHED_IN_GAP, slack=300),
            (SourceVerdict.DIFFERS, 600, 400),
        ),
        # One ended, the other goes on.
        (reported(0, 1000), reported(0, None), (SourceVerdict.DIFFERS, 1000, 2600)),
        (reported(0, None), reported(0, 1000), (SourceVerdict.DIFFERS, 1000, 2600)),
        # Nothing in common at all.
        (reported(0, 500), reported(1000, 1500), (SourceVerdict.DIFFERS, 0, 1000)),
        (reported(0, 500), reported(500, 1500), (SourceVerdict.DIFFERS, 0, 1500)),
        # A zero-length life is the API's word that nothing was held.
        (reported(500, 500), reported(500, 550), (SourceVerdict.AGREED, 0, 0)),
        (reported(500, 500), reported(500, 600), (SourceVerdict.DIFFERS, 0, 100)),
    ],
)
def test_what_two_sources_tell_is_made_one(
    kubernetes: SourceAccount, prometheus: SourceAccount, expected: tuple[SourceVerdict, int, int]
) -> None:
    assert billed(compare(kubernetes, prometheus)) == expected


@pytest.mark.parametrize(
    ("kubernetes", "prometheus", "end", "kind", "slack"),
    [
        # A relist found it gone; a terminal phase or a scrape shows when.
        (
            reported(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            reported(0, 1500),
            1500,
            EndKind.EXACT,
            0,
        ),
        (
            reported(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            reported(0, 1500, EndKind.VANISHED, slack=15),
            1500,
            EndKind.VANISHED,
            15,
        ),
        # Two bounds narrow each other.
        (
            reported(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            reported(0, 900, EndKind.VANISHED_IN_GAP, slack=300),
            900,
            EndKind.VANISHED_IN_GAP,
            300,
        ),
        (
            reported(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            reported(0, 2300, EndKind.VANISHED_IN_GAP, slack=600),
            2300,
            EndKind.VANISHED_IN_GAP,
            100,
        ),
        (
            reported(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            reported(0, 2395, EndKind.VANISHED, slack=15),
            2395,
            EndKind.VANISHED,
            15,
        ),
        # The scrapes saw it until they stopped.
        (
            reported(0, 600, EndKind.VANISHED_IN_GAP, slack=1800),
            reported(0, None, known_until=1200),
            1200,
            EndKind.VANISHED_IN_GAP,
            1200,
        ),
        # The watch is still away: what it knew last is no end.
        (reported(0, None, known_until=600), reported(0, 1500), 1500, EndKind.EXACT, 0),
        (
            reported(0, None, known_until=600),
            reported(0, 1500, EndKind.VANISHED_IN_GAP, slack=60),
            1500,
            EndKind.VANISHED_IN_GAP,
            60,
        ),
        # Apart, but within the tolerance: the better known one stands.
        (
            reported(0, 600, EndKind.VANISHED_IN_GAP, slack=100),
            reported(0, 740),
            740,
            EndKind.EXACT,
            0,
        ),
        (
            reported(0, 600, EndKind.VANISHED_IN_GAP, slack=100),
            reported(0, 740, EndKind.VANISHED, slack=15),
            740,
            EndKind.VANISHED,
            15,
        ),
    ],
)
def test_an_end_the_watch_missed_is_taken_from_prometheus(
    kubernetes: SourceAccount, prometheus: SourceAccount, end: int, kind: EndKind, slack: int
) -> None:
    found = compare(kubernetes, prometheus)

    assert found.verdict is SourceVerdict.RECOVERED
    assert found.billed == Life(at(0), at(end), kind, slack)
    assert found.disputed == ()


def test_what_was_recovered_matters_only_in_the_hour_of_the_end() -> None:
    found = compare(
        reported(-7200, 600, EndKind.VANISHED_IN_GAP, slack=1800), reported(-7200, 1500)
    )

    assert billed(found) == (SourceVerdict.RECOVERED, 1500, 0)
    before = share(found, -3600, 0)
    assert (before.verdict, before.interval and before.interval.seconds) == (
        SourceVerdict.AGREED,
        3600,
    )


def test_a_difference_is_held_in_the_hour_it_lies_in_only() -> None:
    found = compare(reported(-7200, 1000), reported(-7200, 2000))

    before, after = share(found, -3600, 0), share(found, 3600, 7200)
    assert (before.verdict, before.held_seconds) == (SourceVerdict.AGREED, 0)
    assert (after.interval, after.held_seconds) == (None, 0)
    assert billed(found) == (SourceVerdict.DIFFERS, 1000, 1000)


def test_a_different_request_is_reported_and_the_apis_is_billed() -> None:
    found = compare(reported(0, 1000, units=2), reported(0, 1000, units=4))

    assert (found.verdict, found.units, found.is_request_different) == (
        SourceVerdict.REQUEST_DIFFERS,
        2,
        True,
    )
    assert billed(found) == (SourceVerdict.REQUEST_DIFFERS, 1000, 0)


def test_different_times_and_requests_are_both_reported() -> None:
    found = compare(reported(-7200, 1000, units=2), reported(-7200, 2000, units=4))

    assert (found.verdict, found.units, found.is_request_different) == (
        SourceVerdict.DIFFERS,
        2,
        True,
    )
    assert share(found, -3600, 0).verdict is SourceVerdict.REQUEST_DIFFERS


# ---------------------------------------------------------------- only one source knows of it


def test_what_the_api_alone_shows_is_billed_and_reported_when_scrapes_should_have_seen_it() -> None:
    assert billed(compare(reported(0, 1000), None)) == (SourceVerdict.KUBERNETES_ONLY, 1000, 0)
    assert billed(compare(reported(0, 60), None)) == (SourceVerdict.KUBERNETES_ONLY, 60, 0)
    assert billed(compare(reported(-600, None), None)) == (SourceVerdict.KUBERNETES_ONLY, 3600, 0)


@pytest.mark.parametrize(
    ("account", "scrapes"),
    [
        (reported(0, 59), OPEN_EYES),
        (reported(0, 1000), (span(-600, 59), span(1100, 4500))),
        (reported(0, 1000), ()),
    ],
    ids=["shorter than two scrapes", "in a hole", "nobody scraped"],
)
def test_what_the_scrapes_could_miss_is_billed_in_silence(
    account: SourceAccount, scrapes: tuple[OpenInterval, ...]
) -> None:
    found = compare(account, None, scrapes=scrapes)

    assert found.verdict is SourceVerdict.KUBERNETES_EXPLAINED
    assert found.billed == account.life


@pytest.mark.parametrize(
    ("account", "scrapes", "verdict", "end", "slack"),
    [
        # The watch is away since before the hour; nothing was scraped of the pod since.
        (
            reported(-7200, None, known_until=-3600),
            (span(-120, 4500),),
            SourceVerdict.RECOVERED,
            -3600,
            3480,
        ),
        (reported(0, None, known_until=40), (span(40, 4500),), SourceVerdict.RECOVERED, 40, 0),
        (reported(0, None, known_until=600), OPEN_EYES, SourceVerdict.KUBERNETES_ONLY, 600, 0),
        # Too little was scraped after it to conclude anything.
        (
            reported(0, None, known_until=600),
            (span(700, 759),),
            SourceVerdict.KUBERNETES_EXPLAINED,
            None,
            0,
        ),
        (reported(0, None, known_until=600), (), SourceVerdict.KUBERNETES_EXPLAINED, None, 0),
    ],
)
def test_what_the_watch_no_longer_sees_ends_there_when_scrapes_do_not_show_it(
    account: SourceAccount,
    scrapes: tuple[OpenInterval, ...],
    verdict: SourceVerdict,
    end: int | None,
    slack: int,
) -> None:
    found = compare(account, None, scrapes=scrapes)

    assert (found.verdict, found.fallback) == (verdict, account.life)
    assert found.billed is not None
    assert found.billed.end_at == (None if end is None else at(end))
    assert found.billed.slack_seconds == slack


def test_what_only_prometheus_shows_is_held_while_the_watch_was_healthy() -> None:
    assert billed(compare(None, reported(0, 1000))) == (SourceVerdict.PROMETHEUS_ONLY, 0, 1000)
    assert billed(compare(None, reported(-10, 5))) == (SourceVerdict.PROMETHEUS_ONLY, 0, 5)
    assert billed(compare(None, reported(0, None))) == (SourceVerdict.PROMETHEUS_ONLY, 0, 3600)


@pytest.mark.parametrize(
    ("watch", "expected"),
    [
        ((), SourceVerdict.RECOVERED),
        ((span(-600, 0), span(1000, 4500)), SourceVerdict.RECOVERED),
        ((span(-600, 59), span(1000, 4500)), SourceVerdict.RECOVERED),
        ((span(-600, 60), span(1000, 4500)), SourceVerdict.PROMETHEUS_ONLY),
    ],
)
def test_what_the_watch_could_not_see_is_billed_as_recovered(
    watch: tuple[OpenInterval, ...], expected: SourceVerdict
) -> None:
    found = compare(None, reported(0, 1000), watch=watch)

    assert found.verdict is expected
    assert (found.billed is not None) is (expected is SourceVerdict.RECOVERED)


def test_a_recovered_pod_is_recovered_in_every_hour() -> None:
    found = compare(None, reported(-600, 4000), watch=())

    assert [share(found, start, start + 3600).verdict for start in (-3600, 0, 3600)] == [
        SourceVerdict.RECOVERED
    ] * 3


def test_nobody_knowing_of_a_pod_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="nothing to reconcile"):
        compare(None, None)


# ---------------------------------------------------------------- a person accepts one side


@pytest.mark.parametrize(
    ("kubernetes", "prometheus", "side", "seconds", "units"),
    [
        (reported(0, 1000, units=2), reported(0, 2000, units=4), Side.KUBERNETES, 1000, 2),
        (reported(0, 1000, units=2), reported(0, 2000, units=4), Side.PROMETHEUS, 2000, 4),
        (None, reported(0, 2000), Side.PROMETHEUS, 2000, 1),
        (None, reported(0, 2000), Side.KUBERNETES, 0, 0),
        (reported(0, 1000), None, Side.PROMETHEUS, 0, 0),
    ],
)
def test_an_accepted_side_is_billed_alone(
    kubernetes: SourceAccount | None,
    prometheus: SourceAccount | None,
    side: Side,
    seconds: int,
    units: int,
) -> None:
    chosen = kubernetes if side is Side.KUBERNETES else prometheus
    accepted = Accepted(side, chosen.life if chosen else None, chosen.units if chosen else 0)

    found = compare(kubernetes, prometheus, accepted=accepted)

    assert billed(found) == (SourceVerdict.ACCEPTED, seconds, 0)
    assert found.units == units


@pytest.mark.parametrize(
    ("kubernetes", "prometheus"),
    [(None, None), (reported(0, 1000), None), (reported(0, 1000), reported(0, 1500))],
)
def test_what_was_reported_when_it_was_accepted_is_billed_whatever_is_reported_later(
    kubernetes: SourceAccount | None, prometheus: SourceAccount | None
) -> None:
    accepted = Accepted(Side.PROMETHEUS, reported(0, 2000).life, 2)

    found = compare(kubernetes, prometheus, accepted=accepted)

    assert billed(found) == (SourceVerdict.ACCEPTED, 2000, 0)
    assert found.units == 2
