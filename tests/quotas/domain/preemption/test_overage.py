"""By how much what is held exceeds what is allowed."""

import pytest

from metering.domain.catalogue.units import GPUSize
from quotas.domain.preemption.overage import OverageKind, PodUnits, counts, overages_of
from tests.support.quotas.overages import allowance, holding, over


def reported(found: object) -> list[tuple[str, str, int]]:
    return [(one.kind.value, one.holder, one.units) for one in found]  # type: ignore[attr-defined]


def test_what_fits_is_over_nothing() -> None:
    assert overages_of([allowance(4)], [holding(3), holding(1)]) == ()


def test_what_does_not_fit_is_over_by_the_rest() -> None:
    assert reported(overages_of([allowance(4)], [holding(3), holding(3)])) == [
        ("nominal", "acme", 2)
    ]


def test_an_unlimited_level_is_never_over() -> None:
    assert overages_of([allowance(None)], [holding(500)]) == ()


def test_zero_is_a_limit() -> None:
    assert reported(overages_of([allowance(0)], [holding(1)])) == [("nominal", "acme", 1)]


def test_burst_and_nominal_are_walls_of_their_own() -> None:
    held = [holding(4), holding(3, is_burst=True)]

    assert overages_of([allowance(4, 3)], held) == ()
    assert reported(overages_of([allowance(3, 1)], held)) == [
        ("nominal", "acme", 1),
        ("burst", "acme", 2),
    ]


def test_an_unlimited_nominal_still_bounds_its_burst() -> None:
    held = [holding(1, is_burst=True)]

    assert reported(overages_of([allowance(None, 0)], held)) == [("burst", "acme", 1)]


def test_every_level_shows_of_itself() -> None:
    limits = [
        allowance(5),
        allowance(2, project="llm"),
        allowance(1, project="llm", username="carol"),
        allowance(9, project="vision"),
    ]
    held = [holding(3), holding(1, username="bob"), holding(2, project="vision")]

    assert reported(overages_of(limits, held)) == [
        ("nominal", "acme", 1),
        ("nominal", "llm", 2),
        ("nominal", "carol", 2),
    ]


@pytest.mark.parametrize(
    ("held", "is_counted"),
    [
        (holding(), True),
        (holding(project="vision"), False),
        (holding(username="bob"), False),
        (holding(cluster="ampere"), False),
        (holding(models=("A100",)), False),
        (holding(models=("A100", "H100")), True),
        (holding(models=()), True),
        (holding(size=GPUSize.SMALL), False),
        (holding(is_burst=True), False),
    ],
)
def test_a_limit_counts_what_its_selector_says(held: PodUnits, *, is_counted: bool) -> None:
    limit = allowance(0, 9, project="llm", username="carol", model_group="H100", cluster="hopper")

    assert counts(OverageKind.NOMINAL, limit.selector, held) is is_counted
    assert bool(overages_of([limit], [held])) is is_counted


def test_burst_that_must_yield_is_burst() -> None:
    overage = over(2, OverageKind.YIELD)

    assert counts(overage.kind, overage.selector, holding(is_burst=True))
    assert not counts(overage.kind, overage.selector, holding())


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (OverageKind.NOMINAL, "2 large over the limit of llm"),
        (OverageKind.BURST, "2 large over the burst allowance of llm"),
        (OverageKind.YIELD, "2 large of burst that llm must yield"),
    ],
)
def test_an_overage_is_reported_in_words(kind: OverageKind, sentence: str) -> None:
    assert over(2, kind, project="llm").sentence == sentence
