"""From limits and live use to what every namespace's ResourceQuota should say."""

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.division import Place
from quotas.domain.planning import GrantedLimit, PlaceFacts, ceiling_of, plan_quotas

ACME, UMBRELLA = UUID(int=1), UUID(int=2)
LLM, VISION, VIRUS = UUID(int=11), UUID(int=12), UUID(int=21)
OFFERED = ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/unheard-of")
SIZES = {
    "nvidia.com/gpu": GPUSize.LARGE,
    "nvidia.com/mig-1g.10gb": GPUSize.SMALL,
    "nvidia.com/unheard-of": None,
}
GPU, MIG, ODD = (f"requests.{name}" for name in OFFERED)


def place_of(
    name: str,
    project: UUID | None = LLM,
    organization: UUID | None = ACME,
    **further: object,
) -> PlaceFacts:
    defaults: dict[str, object] = {"offered": OFFERED, "sizes": SIZES}
    return PlaceFacts(
        place=Place("hopper", name),
        project_id=project,
        organization_id=organization,
        **{**defaults, **further},  # type: ignore[arg-type]
    )


def limit_of(project: UUID | None, units: int, size: GPUSize = GPUSize.LARGE) -> GrantedLimit:
    return GrantedLimit(ACME, project, size, units)


def test_a_projects_only_namespace_gets_its_limit_and_zero_of_everything_else() -> None:
    plan = plan_quotas([place_of("a")], [limit_of(LLM, 8)])

    assert plan == {Place("hopper", "a"): {GPU: 8, MIG: 0, ODD: 0}}


def test_a_namespace_nobody_decided_about_is_left_alone() -> None:
    plan = plan_quotas([place_of("a"), place_of("b", VIRUS, UMBRELLA)], [limit_of(LLM, 8)])

    assert list(plan) == [Place("hopper", "a")]


def test_a_namespace_that_was_planned_once_falls_to_zero_with_its_limits() -> None:
    plan = plan_quotas([place_of("a", desired={GPU: 8})], [])

    assert plan == {Place("hopper", "a"): {GPU: 0, MIG: 0, ODD: 0}}


def test_a_namespace_whose_binding_ended_falls_to_zero() -> None:
    plan = plan_quotas([place_of("a", None, None, desired={GPU: 8})], [limit_of(LLM, 8)])

    assert plan[Place("hopper", "a")] == {GPU: 0, MIG: 0, ODD: 0}


def test_projects_without_a_limit_share_what_the_organization_has_left() -> None:
    plan = plan_quotas(
        [place_of("a", LLM), place_of("b", VISION), place_of("c", UUID(int=13))],
        [limit_of(None, 10), limit_of(LLM, 4)],
    )

    assert [hard[GPU] for hard in plan.values()] == [4, 3, 3]


def test_an_organization_overdrawn_by_its_projects_leaves_nothing_to_share() -> None:
    plan = plan_quotas(
        [place_of("a", LLM), place_of("b", VISION)], [limit_of(None, 3), limit_of(LLM, 4)]
    )

    assert [hard[GPU] for hard in plan.values()] == [4, 0]


def test_a_cluster_that_cannot_serve_a_size_takes_no_part_of_it() -> None:
    small_only: dict[str, Any] = {"offered": ("nvidia.com/mig-1g.10gb",), "sizes": SIZES}
    plan = plan_quotas([place_of("a"), place_of("b", **small_only)], [limit_of(LLM, 8)])

    assert plan[Place("hopper", "a")][GPU] == 8
    assert plan[Place("hopper", "b")] == {MIG: 0}


def test_sizes_are_divided_apart() -> None:
    plan = plan_quotas(
        [place_of("a", used={GPUSize.LARGE: 2}), place_of("b", used={GPUSize.SMALL: 2})],
        [limit_of(LLM, 4), limit_of(LLM, 4, GPUSize.SMALL)],
    )

    assert [(hard[GPU], hard[MIG]) for hard in plan.values()] == [(4, 1), (0, 3)]


def test_a_share_is_raised_only_after_the_other_has_been_seen_lowered() -> None:
    busy = place_of("a", used={GPUSize.LARGE: 4}, desired={GPU: 4}, ceiling={GPU: 4})
    idle = place_of("b", desired={GPU: 4}, ceiling={GPU: 4})

    plan = plan_quotas([busy, idle], [limit_of(LLM, 8)])

    assert [hard[GPU] for hard in plan.values()] == [4, 1]


def test_the_ceiling_is_the_largest_of_everything_sent() -> None:
    assert ceiling_of({GPU: 4}, {GPU: 2, MIG: 1}, {}) == {GPU: 4, MIG: 1}


@given(
    limits=st.lists(
        st.builds(
            limit_of,
            st.sampled_from([None, LLM, VISION]),
            st.integers(min_value=0, max_value=20),
            st.sampled_from(GPUSize),
        ),
        unique_by=lambda limit: (limit.project_id, limit.size),
    ),
    used=st.lists(st.integers(min_value=0, max_value=9), min_size=5, max_size=5),
)
def test_no_limit_is_ever_admitted_twice_over_its_namespaces(
    limits: list[GrantedLimit], used: list[int]
) -> None:
    projects = [LLM, LLM, VISION, VISION, UUID(int=13)]
    facts = [
        place_of(f"n{i}", project, used={GPUSize.LARGE: used[i], GPUSize.SMALL: used[-i]})
        for i, project in enumerate(projects)
    ]

    plan = plan_quotas(facts, limits)

    for key, size in ((GPU, GPUSize.LARGE), (MIG, GPUSize.SMALL)):
        units = {limit.project_id: limit.limit_units for limit in limits if limit.size is size}
        for project in (LLM, VISION):
            own = [fact.place for fact in facts if fact.project_id == project]
            told = sum(plan[place][key] for place in own if place in plan)
            assert told <= units.get(project, units.get(None, 0))
        if sum(v for k, v in units.items() if k) <= units.get(None, -1):
            assert sum(hard[key] for hard in plan.values()) <= units[None]
