"""A claim's rows are kept state by state, each allocation one row."""

import pytest

from metering.domain.allocations.claims import (
    CLASS_LENGTH_MAX,
    ClaimBook,
    ClaimRow,
    ClaimSnapshot,
    ConsumerRow,
    units_by_class,
)
from metering.domain.allocations.timeline import EndKind
from tests.support.metering.seen import moment

CLASS = "gpu.nvidia.com"
H100 = {"type": "gpu"}


def observation(second: int, **fields: object) -> ClaimSnapshot:
    defaults: dict[str, object] = {
        "uid": "claim-1",
        "namespace": "team-nlp",
        "name": "claim",
        "node": "node-1",
        "units": {CLASS: 1},
        "labels": {CLASS: H100},
        "consumers": {"a": "pod-a"},
        "observed_at": moment(second),
        "is_prompt": True,
    }
    return ClaimSnapshot(**{**defaults, **fields})  # type: ignore[arg-type]


def book(*rows: ClaimRow, consumers: tuple[ConsumerRow, ...] = ()) -> ClaimBook:
    return ClaimBook(rows, consumers, alive_at=moment(10))


def row(begin: int = 0, end: int | None = None, **fields: object) -> ClaimRow:
    defaults: dict[str, object] = {
        "claim_uid": "claim-1",
        "resource": f"claim/{CLASS}",
        "units": 1,
        "begin_at": moment(begin),
        "last_seen_at": moment(begin),
        "end_at": None if end is None else moment(end),
        "labels": H100,
    }
    return ClaimRow(**{**defaults, **fields})  # type: ignore[arg-type]


def ends(found: ClaimBook) -> list[tuple[str, object, EndKind, int, bool, bool]]:
    return [
        (r.resource, r.end_at, r.end_kind, r.slack_seconds, r.is_new, r.is_changed)
        for r in found.rows
    ]


def test_a_first_allocation_is_a_new_row() -> None:
    kept = book()
    kept.apply(observation(5))

    [found] = kept.rows
    assert (found.resource, found.units, found.begin_at, found.labels) == (
        f"claim/{CLASS}",
        1,
        moment(5),
        H100,
    )
    assert found.is_new
    assert [(c.pod_uid, c.begin_at, c.is_new) for c in kept.consumers] == [("a", moment(5), True)]


def test_the_same_state_again_changes_nothing_but_the_observation() -> None:
    kept = book(row(), consumers=(ConsumerRow("claim-1", "a", "pod-a", moment(0)),))
    kept.apply(observation(5))

    assert ends(kept) == [(f"claim/{CLASS}", None, EndKind.OPEN, 0, False, False)]
    assert kept.rows[0].last_seen_at == moment(5)
    assert [c.is_changed for c in kept.consumers] == [False]


def test_each_class_is_a_row_and_each_ends_by_itself() -> None:
    kept = book()
    kept.apply(observation(5, units={"a.example": 1, "b.example": 2}, labels={}))
    kept.apply(observation(9, units={"b.example": 2}, labels={}))

    assert [(r.device_class, r.units, r.end_at) for r in kept.rows] == [
        ("a.example", 1, moment(9)),
        ("b.example", 2, None),
    ]


def test_a_late_end_is_bounded_by_the_last_time_all_was_well() -> None:
    kept = book(row(), row(20, claim_uid="claim-2"))
    kept.apply(observation(500, units={}, consumers={}, is_prompt=False))
    kept.apply(observation(500, uid="claim-2", units={}, consumers={}, is_prompt=False))

    assert [(r.end_at, r.end_kind, r.slack_seconds) for r in kept.rows] == [
        (moment(10), EndKind.VANISHED_IN_GAP, 490),
        (moment(20), EndKind.VANISHED_IN_GAP, 480),
    ]


def test_a_watch_that_never_was_well_bounds_by_the_begin() -> None:
    kept = ClaimBook([row(3)], [], alive_at=None)
    kept.end_absent(frozenset(), at=moment(60))

    assert [(r.end_at, r.slack_seconds) for r in kept.rows] == [(moment(3), 57)]


def test_another_allocation_needs_a_pod_that_is_new_to_the_claim() -> None:
    former = row(end=8)
    kept = book(former, consumers=(ConsumerRow("claim-1", "a", "pod-a", moment(0), moment(8)),))
    kept.apply(observation(9))
    assert kept.rows == [former]

    kept.apply(observation(7, consumers={"b": "pod-b"}))
    assert [(r.resource, r.begin_at) for r in kept.rows[1:]] == [(f"claim/{CLASS}#2", moment(8))]
    assert kept.rows[1].device_class == CLASS


def bounded(end: int = 8, slack: int = 2) -> ClaimRow:
    return row(end=end, end_kind=EndKind.VANISHED_IN_GAP, slack_seconds=slack)


def used(pod: str = "a", end: int | None = 10) -> ConsumerRow:
    return ConsumerRow(
        "claim-1", pod, f"pod-{pod}", moment(0), None if end is None else moment(end)
    )


def uses(found: ClaimBook) -> list[tuple[str, object, object, bool]]:
    return [(c.pod_uid, c.begin_at, c.end_at, c.is_return) for c in found.consumers]


@pytest.mark.parametrize("pods", [{"a": "pod-a"}, {"a": "pod-a", "b": "pod-b"}])
def test_a_claim_that_shows_again_after_a_bound_goes_on_with_its_pods(pods: dict[str, str]) -> None:
    kept = book(bounded(), consumers=(used(), used("gone", end=10), used("left", end=5)))
    kept.apply(observation(20, consumers=pods))

    assert ends(kept) == [(f"claim/{CLASS}", None, EndKind.OPEN, 0, False, True)]
    assert kept.rows[0].last_seen_at == moment(20)
    assert uses(kept)[:3] == [
        ("a", moment(0), None, False),
        ("gone", moment(0), moment(10), False),
        ("left", moment(0), moment(5), False),
    ]
    assert [use[:2] for use in uses(kept)[3:]] == [("b", moment(20))] * (len(pods) - 1)


@pytest.mark.parametrize(
    ("second", "fields"),
    [
        pytest.param(10, {}, id="an old state"),
        pytest.param(20, {"allocated_at": moment(15)}, id="another allocation"),
    ],
)
def test_a_bound_stands_while_nothing_contradicts_it(
    second: int, fields: dict[str, object]
) -> None:
    kept = book(bounded(), consumers=(used(),))
    kept.apply(observation(second, **fields))

    assert [(r.end_at, r.is_changed) for r in kept.rows] == [(moment(8), False)]
    assert uses(kept) == [("a", moment(0), moment(10), False)]


def test_a_claim_used_by_others_after_a_bound_is_another_allocation() -> None:
    kept = book(bounded(), consumers=(used("left", end=5),))
    kept.apply(observation(20, consumers={"b": "pod-b"}))

    assert [(r.resource, r.begin_at, r.end_at) for r in kept.rows] == [
        (f"claim/{CLASS}", moment(0), moment(8)),
        (f"claim/{CLASS}#2", moment(20), None),
    ]


def test_a_pod_that_never_left_goes_on_unchanged() -> None:
    kept = book(bounded(), consumers=(used(end=None),))
    kept.apply(observation(20))

    assert [(c.end_at, c.is_changed) for c in kept.consumers] == [(None, False)]


def test_a_pod_that_comes_back_uses_the_claim_again() -> None:
    kept = book(row(), consumers=(used(end=None), used("b", end=None)))
    kept.apply(observation(5, consumers={"b": "pod-b"}))
    kept.apply(observation(9, consumers={"a": "pod-a", "b": "pod-b"}))
    kept.apply(observation(12, consumers={"b": "pod-b"}))

    assert uses(kept) == [
        ("a", moment(0), moment(5), False),
        ("b", moment(0), None, False),
        ("a", moment(9), moment(12), True),
    ]


def test_an_allocation_time_or_a_bind_shows_the_begin() -> None:
    reported = book()
    reported.apply(observation(50, allocated_at=moment(3), bound_at=moment(4)))
    bound = book()
    bound.apply(observation(50, bound_at=moment(4)))

    assert [reported.rows[0].begin_at, bound.rows[0].begin_at] == [moment(3), moment(4)]


def test_labels_are_filled_once() -> None:
    kept = book(row(labels={}))
    kept.apply(observation(5, labels={}))
    assert not kept.rows[0].is_changed
    kept.apply(observation(6))
    kept.apply(observation(7, labels={CLASS: {"type": "mig"}}))

    assert (kept.rows[0].labels, kept.rows[0].is_changed) == (H100, True)


def test_a_consumer_leaves_once() -> None:
    kept = book(row(), consumers=(ConsumerRow("claim-1", "a", "pod-a", moment(0)),))
    kept.apply(observation(5, consumers={"b": "pod-b"}))
    kept.apply(observation(9, consumers={"b": "pod-b"}))

    assert [(c.pod_uid, c.begin_at, c.end_at) for c in kept.consumers] == [
        ("a", moment(0), moment(5)),
        ("b", moment(5), None),
    ]


def test_a_list_ends_only_what_it_does_not_show() -> None:
    shown, gone, over = row(), row(claim_uid="gone"), row(claim_uid="over", end=4)
    consumers = (
        ConsumerRow("claim-1", "a", "pod-a", moment(0)),
        ConsumerRow("gone", "b", "pod-b", moment(0)),
        ConsumerRow("over", "c", "pod-c", moment(0), moment(4)),
    )
    kept = book(shown, gone, over, consumers=consumers)
    kept.end_absent(frozenset({"claim-1"}), at=moment(60))

    assert [(r.end_at, r.is_changed) for r in kept.rows] == [
        (None, False),
        (moment(10), True),
        (moment(4), False),
    ]
    assert [c.end_at for c in kept.consumers] == [None, moment(60), moment(4)]


def test_devices_are_counted_by_class_and_long_names_are_cut() -> None:
    assert units_by_class([CLASS, "x" * 200, CLASS]) == {CLASS: 2, "x" * CLASS_LENGTH_MAX: 1}
