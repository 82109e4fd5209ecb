"""Sights of one pod are merged: the bind as it was first reported, the end as it is best known."""

import itertools
from dataclasses import replace

import pytest

from metering.domain.allocations.pod_life import (
    RESOURCE_LENGTH_MAX,
    UNITS_STORED_MAX,
    PodSnapshot,
    believed,
    is_refused,
    merge_snapshots,
)
from tests.support.metering.seen import moment


def observation(uid: str = "a", **fields: object) -> PodSnapshot:
    defaults: dict[str, object] = {
        "uid": uid,
        "namespace": "team-nlp",
        "name": f"pod-{uid}",
        "node": "node-1",
        "owner": "ada",
        "controller": "",
        "priority_class": "",
        "priority": None,
        "requests": {"nvidia.com/gpu": 1},
        "reason": "",
        "created_at": moment(0),
        "bound_at": moment(5),
    }
    return PodSnapshot(**{**defaults, **fields})  # type: ignore[arg-type]


def test_pods_stay_in_the_order_of_their_first_observation() -> None:
    merged = merge_snapshots(
        [observation("b"), observation("a"), observation("b"), observation("c")]
    )

    assert [item.uid for item in merged] == ["b", "a", "c"]


def test_the_first_bound_observation_is_the_snapshot() -> None:
    waiting = observation(bound_at=None, node="", owner="before")
    bound = observation(owner="at bind", priority_class="batch")
    relabelled = observation(owner="later", started_at=moment(9))

    [merged] = merge_snapshots([waiting, bound, relabelled])

    assert (merged.owner, merged.priority_class, merged.node) == ("at bind", "batch", "node-1")
    assert (merged.bound_at, merged.started_at) == (moment(5), moment(9))


def test_an_unbound_observation_after_a_bound_one_changes_no_bind() -> None:
    [merged] = merge_snapshots([observation(), observation(bound_at=None, node="")])

    assert (merged.node, merged.bound_at) == ("node-1", moment(5))


def test_the_best_evidence_of_an_end_stands_in_any_order() -> None:
    reported = [
        observation(alive_at=moment(10)),
        observation(gone_at=moment(90)),
        observation(gone_at=moment(60), is_prompt=True),
        observation(gone_at=moment(70), is_prompt=True),
        observation(finished_at=moment(55), gone_at=moment(61), is_prompt=True),
        observation(deletion_at=moment(50)),
    ]
    for order in itertools.permutations(reported):
        [merged] = merge_snapshots(order)

        assert (merged.finished_at, merged.gone_at, merged.is_prompt, merged.alive_at) == (
            moment(55),
            moment(60),
            True,
            moment(10),
        )
        assert merged.deletion_at == moment(50)


def test_reasons_and_defects_are_kept_from_the_latest_that_has_any() -> None:
    reported = [
        observation(reason="Evicted", defects=("x",)),
        observation(),
        observation(reason="Preempting", defects=("y",)),
        observation(),
    ]

    [merged] = merge_snapshots(reported)

    assert (merged.reason, merged.defects) == ("Preempting", ("y",))
    assert merge_snapshots([merged, replace(merged)]) == (merged,)


@pytest.mark.parametrize(
    ("phase", "reason", "has_run", "refused"),
    [
        ("Failed", "UnexpectedAdmissionError", False, True),
        ("Failed", "OutOfnvidia.com/gpu", False, True),
        ("Failed", "", False, True),
        ("Failed", "", True, False),
        ("Failed", "Evicted", False, False),
        ("Failed", "DeadlineExceeded", False, False),
        ("Pending", "UnexpectedAdmissionError", False, False),
        ("Succeeded", "", False, False),
    ],
)
def test_only_a_failed_pod_that_never_ran_and_was_not_ended_later_was_refused(
    phase: str,
    reason: str,
    has_run: bool,  # noqa: FBT001 - A column of the table.
    refused: bool,  # noqa: FBT001 - As above.
) -> None:
    assert is_refused(phase=phase, reason=reason, has_run=has_run) is refused


@pytest.mark.parametrize(
    ("resource", "units", "kept"),
    [
        ("nvidia.com/gpu", 1, 1),
        ("nvidia.com/gpu", UNITS_STORED_MAX, UNITS_STORED_MAX),
        ("nvidia.com/gpu", UNITS_STORED_MAX + 1, str(UNITS_STORED_MAX + 1)),
        ("nvidia.com/gpu", -1, "-1"),
        ("n" * RESOURCE_LENGTH_MAX, 2, 2),
        ("n" * (RESOURCE_LENGTH_MAX + 1), 2, "2"),
    ],
)
def test_what_no_row_can_hold_is_kept_as_text(resource: str, units: int, kept: int | str) -> None:
    assert believed(resource, units=units) == kept
