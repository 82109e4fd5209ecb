"""Coverage by scrapes: whose absence means something at which scrape, and what nothing observed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.allocations.timeline import OpenInterval
from metering.domain.collection.scrape_coverage import (
    Hole,
    ScrapeCoverage,
    coverage_of,
    uncovered,
    united_seconds,
)
from metering.protocols import ScrapeTarget

HOUR = datetime(2026, 10, 1, 10, tzinfo=UTC)
END = HOUR + timedelta(hours=1)
SCRAPE = 30
FROM, UNTIL = -240, 4200


@dataclass(frozen=True)
class Thing:
    targets: tuple[str, ...]
    first_seen_at: datetime | None
    last_seen_at: datetime | None


def at(second: int) -> datetime:
    return HOUR + timedelta(seconds=second)


def target(name: str, *parts: tuple[int, int], late: int = 0) -> ScrapeTarget:
    """Return a target that was scraped within some times."""
    parts = parts or ((FROM, UNTIL),)
    ticks = (second + late for begin, end in parts for second in range(begin, end, SCRAPE))
    return ScrapeTarget(name, tuple(map(at, ticks)))


def thing(names: str, begin: int = FROM, end: int = UNTIL - SCRAPE) -> Thing:
    return Thing(tuple(names), at(begin), at(end))


def covered(targets: Sequence[ScrapeTarget], *things: Thing) -> ScrapeCoverage:
    ticks = sorted({tick for one in targets for tick in one.ticks})
    return coverage_of(ticks, targets={one.name: one.ticks for one in targets}, carried=things)


def holes(coverage: ScrapeCoverage) -> tuple[Hole, ...]:
    return coverage.holes(start_at=HOUR, end_at=END, scrape_interval_seconds=SCRAPE)


def seconds(coverage: ScrapeCoverage) -> list[tuple[str, int, int, bool]]:
    return [
        ("".join(sorted(one.targets)), one.seconds, one.inside_seconds, one.is_bounded)
        for one in holes(coverage)
    ]


def test_a_target_that_never_answered_hides_nothing() -> None:
    assert seconds(covered([target("A"), ScrapeTarget("B", ())], thing("A"))) == []


def test_an_idle_target_covers_for_nothing() -> None:
    coverage = covered([target("A", (FROM, 600), (900, UNTIL)), target("B")], thing("A"))

    assert seconds(coverage) == [("A", 300, 300, True)]


def test_of_two_copies_one_covers_for_the_other() -> None:
    copies = [target("A", (FROM, 600)), target("B", late=11)]
    ended_before, began_after = thing("AB", FROM, 300), thing("B", 901, UNTIL - 19)

    coverage = covered(copies, thing("AB"), ended_before, began_after)

    assert seconds(coverage) == []


def test_one_shard_does_not_cover_for_the_other() -> None:
    coverage = covered(
        [target("A"), target("B", (FROM, 600), (900, UNTIL))], thing("A"), thing("B")
    )

    assert seconds(coverage) == [("B", 300, 300, True)]
    assert at(660) in coverage.ticks_for(["A"])
    assert at(660) not in coverage.ticks_for(["B"])
    assert at(660) not in coverage.ticks_for([])


def test_a_shard_that_dies_leaves_a_hole_without_an_end() -> None:
    coverage = covered([target("A"), target("B", (FROM, 600))], thing("A"), thing("B", FROM, 570))

    assert seconds(coverage) == [("B", 3000, 3000, False)]


def test_a_restart_under_another_address_is_one_timeline() -> None:
    restart = [target("A", (FROM, 600)), target("B", (611, UNTIL))]
    things = [thing("AB", FROM, 4181), thing("A", FROM, 570), thing("B", 611, 4181)]

    coverage = covered(restart, *things)

    assert seconds(coverage) == []
    assert coverage.ticks_for(["A"])[-1] == at(4181)


def test_a_restart_that_took_long_is_a_hole_of_both_addresses() -> None:
    restart = [target("A", (FROM, 600)), target("B", (840, UNTIL))]

    coverage = covered(restart, thing("AB"), thing("A", FROM, 570), thing("B", 840))

    assert seconds(coverage) == [("AB", 240, 240, True)]


def test_another_number_of_shards_is_no_hole() -> None:
    old = [target("A", (FROM, 600)), target("B", (FROM, 600))]
    new = [target("C", (600, UNTIL)), target("D", (600, UNTIL)), target("E", (600, UNTIL))]
    lasting = [thing(names) for names in ("AC", "AD", "AE", "BC", "BD", "BE")]

    coverage = covered([*old, *new], *lasting, thing("A", FROM, 570), thing("D", 600))

    assert seconds(coverage) == []


def test_of_new_shards_one_that_comes_late_is_a_hole() -> None:
    old = [target("A", (FROM, 600)), target("B", (FROM, 600))]
    new = [target("C", (600, UNTIL)), target("D", (1200, UNTIL))]

    coverage = covered([*old, *new], thing("AC"), thing("AD"), thing("BC"), thing("BD"))

    assert seconds(coverage) == [("AD", 600, 600, True), ("BD", 600, 600, True)]
    assert united_seconds(holes(coverage)) == 600


def test_an_exporter_that_shows_nodes_alone_does_not_cover_for_pods() -> None:
    targets = [target("A", (FROM, 600), (1500, UNTIL)), target("B")]

    coverage = covered(targets, thing("AB"), thing("A"), thing("A", FROM, 570))

    assert seconds(coverage) == [("A", 900, 900, True)]


def test_a_shard_that_was_seen_empty_may_go() -> None:
    targets = [target("A"), target("B", (FROM, 1200))]

    assert seconds(covered(targets, thing("A"), thing("B", FROM, 570))) == []


def test_a_shard_that_was_away_before_it_was_seen_empty_left_a_hole() -> None:
    targets = [target("A"), target("B", (FROM, 600), (900, 1200))]

    coverage = covered(targets, thing("A"), thing("B", FROM, 570))

    assert seconds(coverage) == [("B", 300, 300, True)]


def test_without_names_the_scrapes_as_a_whole_count() -> None:
    ticks = [at(second) for second in (*range(FROM, 600, SCRAPE), *range(780, UNTIL, SCRAPE))]

    coverage = coverage_of(ticks, targets={}, carried=[thing("")])

    assert seconds(coverage) == [("", 180, 180, True)]


@pytest.mark.parametrize(
    ("missed", "length", "exceeds"),
    [(1, 30, False), (3, 90, False), (6, 180, False), (8, 240, True)],
)
def test_missed_scrapes_are_as_many_unobserved_intervals(
    missed: int, length: int, *, exceeds: bool
) -> None:
    coverage = covered([target("A", (FROM, 600), (600 + missed * SCRAPE, UNTIL))], thing("A"))

    [hole] = holes(coverage)
    assert (hole.seconds, hole.inside_seconds, hole.exceeds(180)) == (length, length, exceeds)


def test_a_hole_over_the_hours_begin_counts_whole_and_is_clipped() -> None:
    coverage = covered([target("A", (FROM, -120), (60, UNTIL))], thing("A"))

    assert seconds(coverage) == [("A", 180, 45, True)]


def test_a_hole_whose_begin_was_not_asked_for_is_not_bounded() -> None:
    assert seconds(covered([target("A", (90, UNTIL))], thing("A", 90))) == [("A", 60, 60, False)]


def test_no_scrape_at_all_is_one_hole_without_bounds() -> None:
    assert seconds(coverage_of((), targets={}, carried=())) == [("", 3600, 3600, False)]


def test_scrapes_in_time_leave_no_hole_at_the_edges() -> None:
    ticks = [at(second) for second in range(29, 3600, SCRAPE)]

    assert seconds(coverage_of(ticks, targets={}, carried=())) == []


def test_another_source_covers_what_it_observed() -> None:
    missed = holes(covered([target("A", (FROM, 600), (1200, UNTIL))], thing("A")))

    assert uncovered(missed, spans=[OpenInterval(HOUR, None)]) == ()
    assert uncovered(missed, spans=()) == missed
    parts = uncovered(missed, spans=[OpenInterval(at(0), at(700)), OpenInterval(at(800), at(1100))])
    assert [(one.begin_at, one.end_at, one.seconds) for one in parts] == [
        (at(700), at(800), 100),
        (at(1100), at(1185), 85),
    ]


@given(st.lists(st.sets(st.integers(-8, 140), min_size=1), min_size=1, max_size=4))
def test_lines_of_shards_together_are_never_denser_than_any_of_them(
    shards: list[set[int]],
) -> None:
    targets = [
        ScrapeTarget(str(number), tuple(at(step * SCRAPE) for step in sorted(steps)))
        for number, steps in enumerate(shards)
    ]
    things = [Thing((one.name,), one.ticks[0], one.ticks[-1]) for one in targets]

    coverage = covered(targets, *things)

    for one in targets:
        assert tuple(coverage.ticks_for([one.name])) == one.ticks
        for earlier, later in zip(coverage.joint, coverage.joint[1:], strict=False):
            assert any(earlier < tick <= later for tick in one.ticks)
    assert united_seconds(holes(coverage)) <= 3600


@pytest.mark.parametrize(
    ("watched", "seconds"),
    [((0, 3480), 120 + 1800), ((1920, 3600), 120), ((1860, 3540), 60 + 60 + 1800)],
)
def test_the_rest_of_a_hole_over_the_edge_counts_whole(
    watched: tuple[int, int], seconds: int
) -> None:
    over = Hole(at(1800), at(3600), 3600, is_bounded=True, after_seconds=1800)
    span = OpenInterval(at(watched[0]), at(watched[1]))

    found = uncovered([over], spans=[span])

    assert sum(hole.seconds for hole in found) == seconds


def test_a_hole_knows_how_much_of_it_lies_outside_the_hour() -> None:
    [hole] = holes(covered([target("a", (FROM, 1800), (3840, UNTIL))], thing("a")))

    assert (hole.before_seconds, hole.after_seconds) == (0, 225)
    assert hole.seconds == int((hole.end_at - hole.begin_at).total_seconds()) + 225
