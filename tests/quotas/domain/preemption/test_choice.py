"""Who goes, in which order, and why."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize
from quotas.domain.preemption.choice import (
    NOBODY_KNOWN,
    Candidate,
    Choice,
    Tier,
    are_settled,
    choose_victims,
    gang_of,
    is_needed,
)
from quotas.domain.preemption.overage import Overage, OverageKind
from tests.support.quotas.overages import over, pod


def names(choice: Choice) -> list[list[str]]:
    return [[one.pod_name for one in victim.pods] for victim in choice.victims]


def test_nobody_goes_when_nothing_is_over() -> None:
    assert choose_victims([], [pod("a")]) == Choice((), ())


def test_it_stops_as_soon_as_everything_fits() -> None:
    pods = [pod("a", age=30), pod("b", age=20), pod("c", age=10)]

    assert names(choose_victims([over(2)], pods)) == [["c"], ["b"]]


def test_the_lowest_priority_goes_before_the_newest() -> None:
    pods = [pod("new", age=1, priority=100), pod("old", age=600, priority=-5)]

    assert names(choose_victims([over(1)], pods)) == [["old"]]


def test_preemptible_pods_go_before_all_others() -> None:
    overages = [over(1), over(1, OverageKind.BURST)]
    pods = [pod("nominal", priority=-9), pod("burst", priority=9, is_burst=True)]

    assert names(choose_victims(overages, pods)) == [["burst"], ["nominal"]]


def test_who_is_over_their_own_projects_limit_goes_before_who_is_not() -> None:
    overages = [over(2), over(1, project="vision")]
    pods = [
        pod("fair", age=1, priority=-9),
        pod("borrower", age=600, project="vision"),
        pod("fair-2", age=2, priority=5),
    ]

    choice = choose_victims(overages, pods)

    assert names(choice) == [["borrower"], ["fair"]]
    assert [victim.tier for victim in choice.victims] == [Tier.BORROWED, Tier.NOMINAL]


def test_only_what_is_over_is_freed() -> None:
    overages = [over(1, size=GPUSize.SMALL)]
    pods = [pod("large"), pod("small", age=90, size=GPUSize.SMALL)]

    assert names(choose_victims(overages, pods)) == [["small"]]


def test_burst_units_end_no_nominal_overage() -> None:
    choice = choose_victims([over(1)], [pod("burst", is_burst=True)])

    assert choice.victims == ()
    assert [(one.units, one.why) for one in choice.remainders] == [(1, NOBODY_KNOWN)]


@pytest.mark.parametrize("kind", ["Job", "JobSet", "PodGroup", "MPIJob"])
def test_a_gang_goes_whole(kind: str) -> None:
    pods = [pod(f"w-{n}", controller=f"{kind}/train", age=n) for n in range(3)]

    choice = choose_victims([over(1)], pods)

    assert names(choice) == [["w-0", "w-1", "w-2"]]
    assert choice.victims[0].units_freed == (3,)


def test_pods_of_one_deployment_go_one_by_one() -> None:
    pods = [pod(f"w-{n}", controller="ReplicaSet/web", age=n) for n in range(3)]

    assert names(choose_victims([over(1)], pods)) == [["w-0"]]


def test_gangs_of_one_name_in_two_namespaces_are_two() -> None:
    pods = [
        pod("a", controller="Job/train", project="llm", age=5),
        pod("b", controller="Job/train", project="vision", age=9),
    ]

    assert names(choose_victims([over(1)], pods)) == [["a"]]


def test_a_waiting_pod_goes_with_its_gang_and_alone_it_stays() -> None:
    pods = [
        pod("w-0", controller="Job/train"),
        pod("w-1", 0, controller="Job/train"),
        pod("lonely", 0),
    ]

    assert names(choose_victims([over(1)], pods)) == [["w-0", "w-1"]]


def test_a_gang_is_as_old_as_its_oldest_and_as_important_as_its_first_pod() -> None:
    gang = [
        pod("w-0", controller="Job/train", age=600),
        pod("w-1", controller="Job/train", age=1),
    ]
    higher = [replace(one, priority=7 * n) for n, one in enumerate(gang)]

    assert names(choose_victims([over(1)], [*gang, pod("single", age=60)])) == [["single"]]
    assert names(choose_victims([over(1)], [*higher, pod("single", age=900)])) == [["single"]]


def test_anyone_who_others_make_needless_stays() -> None:
    pods = [pod("new", 1, age=1), pod("old", 3, age=9)]

    assert names(choose_victims([over(3)], pods)) == [["old"]]


@pytest.mark.parametrize(
    ("spared", "why"),
    [
        ({"priority": 2_000_000_000}, "of the system"),
        ({"priority_class": "system-node-critical"}, "of the system"),
        ({"protection": "in a protected window (release)"}, "in a protected window (release)"),
    ],
)
def test_some_never_go_and_what_remains_is_reported(spared: dict[str, object], why: str) -> None:
    pods = [replace(pod("a", 2), **spared), pod("b", age=99)]  # type: ignore[arg-type]

    choice = choose_victims([over(3)], pods)

    assert names(choice) == [["b"]]
    assert [(one.units, one.overage.units, one.why) for one in choice.remainders] == [
        (2, 2, f"May not go: 2 {why}.")
    ]


def test_one_protected_pod_spares_its_gang() -> None:
    pods = [
        pod("w-0", controller="Job/train"),
        pod("w-1", controller="Job/train", protection="in a protected window"),
    ]

    choice = choose_victims([over(1)], pods)

    assert choice.victims == ()
    assert choice.remainders[0].why == "May not go: 2 in a protected window."


def test_what_is_ending_counts_as_free() -> None:
    pods = [pod("going", 2, is_ending=True), pod("a", age=1), pod("b", age=2)]

    assert names(choose_victims([over(2)], pods)) == []
    assert names(choose_victims([over(3)], pods)) == [["a"]]
    assert are_settled([over(2)], pods)
    assert not are_settled([over(3)], pods)


def test_a_gang_is_needed_while_it_frees_what_is_over() -> None:
    going, a, small = pod("going", is_ending=True), pod("a"), pod("b", size=GPUSize.SMALL)

    assert is_needed([a], [over(2)], [going, a, small])
    assert not is_needed([a], [over(1)], [going, a, small])
    assert not is_needed([small], [over(2)], [going, a, small])


def test_every_victim_has_its_reason_in_words() -> None:
    overages = [over(2), over(1, project="llm")]
    pods = [
        pod("w-0", controller="Job/train", age=60, priority=-3),
        pod("w-1", controller="Job/train"),
    ]

    (victim,) = choose_victims(overages, pods).victims

    assert victim.why == (
        "One of 2 pods that go together, over the limit of its own project or user, priority 0, "
        "began 2026-11-02 11:00 UTC: frees 2 of 2 large over the limit of acme; "
        "frees 2 of 1 large over the limit of llm."
    )


def test_the_same_question_has_one_answer() -> None:
    pods = [pod("a"), pod("b"), pod("c")]

    assert names(choose_victims([over(2)], pods)) == [["a"], ["b"]]
    assert choose_victims([over(2)], pods) == choose_victims([over(2)], reversed(pods))


PODS = st.lists(
    st.builds(
        pod,
        st.uuids().map(str),
        st.integers(0, 4),
        controller=st.sampled_from(["", "Job/a", "Job/b", "ReplicaSet/c"]),
        priority=st.sampled_from([-1, 0, 1, 2_000_000_000]),
        age=st.integers(0, 5),
        project=st.sampled_from(["llm", "vision"]),
        is_burst=st.booleans(),
        is_ending=st.booleans(),
        protection=st.sampled_from(["", "", "", "protected"]),
        size=st.sampled_from([GPUSize.LARGE, GPUSize.SMALL]),
    ),
    max_size=10,
)
OVERAGES = st.lists(
    st.builds(
        over,
        st.integers(1, 9),
        st.sampled_from(OverageKind),
        project=st.sampled_from(["", "llm"]),
        size=st.sampled_from([GPUSize.LARGE, GPUSize.SMALL]),
    ),
    max_size=3,
)


def gone(overages: list[Overage], pods: list[Candidate], going: set[str]) -> list[int]:
    """Return what is left over when some pods go, and those that are ending."""
    after = [replace(one, is_ending=one.is_ending or one.pod_uid in going) for one in pods]
    stays = [max(0, one.units) for one in overages]
    for place, one in enumerate(overages):
        freed = sum(
            held.units
            for each in after
            if each.is_ending
            for held in each.holdings
            if held.size is one.selector.size
            and held.is_burst is (one.kind is not OverageKind.NOMINAL)
            and one.selector.project in {"", held.project}
        )
        stays[place] = max(0, stays[place] - freed)
    return stays


@given(OVERAGES, PODS)
def test_exactly_what_is_reported_remains(overages: list[Overage], pods: list[Candidate]) -> None:
    choice = choose_victims(overages, pods)

    going = {one.pod_uid for victim in choice.victims for one in victim.pods}
    reported = sorted((one.overage.sentence, one.units) for one in choice.remainders)
    left = gone(overages, pods, going)
    assert sorted(units for _, units in reported) == sorted(units for units in left if units)
    assert are_settled(
        overages, [replace(one, is_ending=one.is_ending or one.pod_uid in going) for one in pods]
    ) is (not reported)


@given(OVERAGES, PODS)
def test_no_victim_could_be_left_out(overages: list[Overage], pods: list[Candidate]) -> None:
    choice = choose_victims(overages, pods)

    everybody = {one.pod_uid for victim in choice.victims for one in victim.pods}
    least = gone(overages, pods, everybody)
    for victim in choice.victims:
        others = everybody - {one.pod_uid for one in victim.pods}
        assert gone(overages, pods, others) != least


@given(OVERAGES, PODS)
def test_gangs_go_whole_and_the_spared_stay(overages: list[Overage], pods: list[Candidate]) -> None:
    choice = choose_victims(overages, pods)

    for victim in choice.victims:
        keys = {gang_of(one) for one in victim.pods}
        (key,) = keys
        gang = [one for one in pods if gang_of(one) == key]
        assert {one.pod_uid for one in gang if not one.is_ending} == {
            one.pod_uid for one in victim.pods
        }
        assert all(one.priority < 2_000_000_000 and not one.protection for one in gang)


def test_a_gang_with_two_reasons_to_stay_has_the_same_one_in_any_order() -> None:
    pods = [
        pod("a", controller="Job/a", protection="protected"),
        pod("b", controller="Job/a", priority=2_000_000_000),
    ]

    (forwards,) = choose_victims([over(2)], pods).remainders
    (backwards,) = choose_victims([over(2)], pods[::-1]).remainders

    assert forwards.why == backwards.why == "May not go: 2 of the system."


@given(OVERAGES, PODS, st.randoms(use_true_random=False))
def test_the_order_of_what_is_reported_changes_nothing(
    overages: list[Overage],
    pods: list[Candidate],
    chance: object,
) -> None:
    shuffled = list(pods)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]

    assert choose_victims(overages, shuffled) == choose_victims(overages, pods)
