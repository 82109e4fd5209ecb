"""What goes together: one gang controller, or device claims that join."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.preemption.choice import Candidate, gang_of, gangs_of
from tests.support.quotas.overages import pod

CONTROLLERS = ("", "Job/a", "Job/b", "ReplicaSet/c")
PODS = st.lists(
    st.tuples(
        st.sampled_from(CONTROLLERS), st.frozensets(st.sampled_from(("x", "y", "z")), max_size=2)
    ),
    max_size=8,
).map(lambda found: [using(f"p-{n}", one, claims) for n, (one, claims) in enumerate(found)])


def using(name: str, controller: str, claims: frozenset[str]) -> Candidate:
    return replace(pod(name, controller=controller), claims=claims)


def names(pods: list[Candidate]) -> list[list[str]]:
    return sorted(sorted(one.pod_name for one in gang) for gang in gangs_of(pods).values())


def test_a_job_whose_pods_have_a_claim_each_stays_one_gang() -> None:
    pods = [using(f"w-{n}", "Job/a", frozenset({f"claim-{n}"})) for n in range(3)]

    assert names(pods) == [["w-0", "w-1", "w-2"]]


def test_claims_join_gangs_also_in_a_chain() -> None:
    pods = [
        using("a", "Job/a", frozenset({"x"})),
        using("b", "Job/b", frozenset({"y"})),
        using("c", "", frozenset({"x", "y"})),
        using("d", "ReplicaSet/c", frozenset()),
    ]

    assert names(pods) == [["a", "b", "c"], ["d"]]


@given(PODS, st.randoms(use_true_random=False))
def test_pods_are_together_just_when_something_joins_them(
    pods: list[Candidate], chance: object
) -> None:
    shuffled = list(pods)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    gangs = gangs_of(pods)

    assert names(shuffled) == names(pods)
    assert set(gangs) == set(gangs_of(shuffled))
    place = {one.pod_uid: key for key, gang in gangs.items() for one in gang}
    assert len(place) == len(pods)
    for left in pods:
        for right in pods:
            if gang_of(left) == gang_of(right) or left.claims & right.claims:
                assert place[left.pod_uid] == place[right.pod_uid]
    for gang in gangs.values():
        reached = {gang[0].pod_uid}
        for _ in gang:
            reached |= {
                one.pod_uid
                for one in gang
                for other in gang
                if other.pod_uid in reached
                and (gang_of(one) == gang_of(other) or one.claims & other.claims)
            }
        assert len(reached) == len(gang)
