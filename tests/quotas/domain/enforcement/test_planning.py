"""From limits and live use to what every namespace's ResourceQuota should say."""

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize
from quotas.domain.enforcement.division import ClusterNamespace
from quotas.domain.enforcement.planning import (
    CapFacts,
    GrantedLimit,
    PlaceFacts,
    ceiling_of,
    plan_quotas,
)
from quotas.domain.enforcement.resource_quota import OPEN_UNITS
from quotas.domain.limits.selectors import LimitSelector

ACME, UMBRELLA = UUID(int=1), UUID(int=2)
LLM, VISION, VIRUS = UUID(int=11), UUID(int=12), UUID(int=21)
OFFERED = ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/unheard-of")
SIZES = {
    "nvidia.com/gpu": GPUSize.LARGE,
    "nvidia.com/mig-1g.10gb": GPUSize.SMALL,
    "nvidia.com/unheard-of": None,
}
GPU, MIG, ODD = (f"requests.{name}" for name in OFFERED)


def held(units: int, size: GPUSize = GPUSize.LARGE, model: str = "H100") -> CapFacts:
    return CapFacts(used={(size, model): units})


def place_of(
    name: str,
    project: UUID | None = LLM,
    organization: UUID | None = ACME,
    *,
    cluster: str = "hopper",
    **further: object,
) -> PlaceFacts:
    defaults: dict[str, object] = {"offered": OFFERED, "sizes": SIZES}
    return PlaceFacts(
        place=ClusterNamespace(cluster, name),
        project_id=project,
        organization_id=organization,
        **{**defaults, **further},  # type: ignore[arg-type]
    )


def limit_of(
    project: UUID | None,
    units: int | None,
    size: GPUSize = GPUSize.LARGE,
    *,
    model: str = "",
    cluster: str = "",
    burst: int = 0,
    percent: int = 100,
) -> GrantedLimit:
    return GrantedLimit(ACME, project, LimitSelector(size, model, cluster), units, burst, percent)


def plan(facts: list[PlaceFacts], limits: list[GrantedLimit]) -> dict[str, dict[str, int]]:
    return {one.namespace: quota.hard for one, quota in plan_quotas(facts, limits).items()}


def gpus(facts: list[PlaceFacts], limits: list[GrantedLimit]) -> list[int]:
    """Return what each place is shown nvidia.com/gpu, by place."""
    return [hard[GPU] for hard in plan(facts, limits).values()]


def test_a_projects_only_namespace_gets_its_limit_and_zero_of_everything_else() -> None:
    assert plan([place_of("a")], [limit_of(LLM, 8)]) == {"a": {GPU: 8, MIG: 0, ODD: 0}}


def test_a_namespace_nobody_decided_about_is_left_alone() -> None:
    facts = [place_of("a"), place_of("b", VIRUS, UMBRELLA)]

    assert list(plan(facts, [limit_of(LLM, 8)])) == ["a"]


def test_a_namespace_whose_last_limit_was_taken_away_is_open_again() -> None:
    facts = [place_of("a", nominal=CapFacts(desired={GPU: 8}))]

    assert plan(facts, []) == {"a": dict.fromkeys((GPU, MIG, ODD), OPEN_UNITS)}


def test_a_namespace_whose_binding_ended_falls_to_zero() -> None:
    facts = [place_of("a", None, None, nominal=CapFacts(desired={GPU: 8}))]

    assert plan(facts, [limit_of(LLM, 8)]) == {"a": {GPU: 0, MIG: 0, ODD: 0}}


def test_projects_without_a_limit_share_what_the_organization_has_left() -> None:
    facts = [place_of("a", LLM), place_of("b", VISION), place_of("c", UUID(int=13))]

    assert gpus(facts, [limit_of(None, 10), limit_of(LLM, 4)]) == [4, 3, 3]


def test_an_organization_overdrawn_by_its_projects_leaves_nothing_to_share() -> None:
    facts = [place_of("a", LLM), place_of("b", VISION)]

    assert gpus(facts, [limit_of(None, 3), limit_of(LLM, 4)]) == [4, 0]


def test_what_an_organization_promises_twice_leaves_more_to_share_but_never_above_itself() -> None:
    facts = [place_of("a", LLM), place_of("b", VISION)]

    twice = gpus(facts, [limit_of(None, 10, percent=200), limit_of(LLM, 8)])
    idle = gpus(facts[1:], [limit_of(None, 10, percent=200)])

    assert (twice, idle) == ([8, 10], [10])


def test_a_cluster_that_cannot_serve_a_size_takes_no_part_of_it() -> None:
    small_only: dict[str, Any] = {"offered": ("nvidia.com/mig-1g.10gb",), "sizes": SIZES}
    reported = plan([place_of("a"), place_of("b", **small_only)], [limit_of(LLM, 8)])

    assert (reported["a"][GPU], reported["b"]) == (8, {MIG: 0})


def test_sizes_are_divided_apart() -> None:
    reported = plan(
        [place_of("a", nominal=held(2)), place_of("b", nominal=held(2, GPUSize.SMALL))],
        [limit_of(LLM, 4), limit_of(LLM, 4, GPUSize.SMALL)],
    )

    assert [(hard[GPU], hard[MIG]) for hard in reported.values()] == [(4, 1), (0, 3)]


def said(units: int, used: int = 0) -> CapFacts:
    """Return the wall of a place that was reported units, and that may be saying so."""
    return CapFacts(
        used={(GPUSize.LARGE, "H100"): used}, desired={GPU: units}, ceiling={GPU: units}
    )


def test_a_share_is_raised_only_after_the_other_has_been_seen_lowered() -> None:
    facts = [place_of("a", nominal=said(4, used=4)), place_of("b", nominal=said(4))]

    assert gpus(facts, [limit_of(LLM, 8)]) == [4, 1]


def test_a_project_is_raised_only_after_the_rest_of_its_organization_was_lowered() -> None:
    limits = [limit_of(None, 10), limit_of(LLM, 8)]
    before = [place_of("a", LLM, nominal=said(4)), place_of("b", VISION, nominal=said(6))]
    after = [place_of("a", LLM, nominal=said(4)), place_of("b", VISION, nominal=said(2))]

    assert gpus(before, limits) == [4, 2]
    assert gpus(after, limits) == [8, 2]


def test_what_is_unlimited_is_left_open_by_a_number() -> None:
    reported = plan([place_of("a"), place_of("b")], [limit_of(LLM, None)])

    assert [hard[GPU] for hard in reported.values()] == [OPEN_UNITS, OPEN_UNITS]
    assert reported["a"][MIG] == 0


def test_an_unlimited_project_is_bound_by_its_organization() -> None:
    facts = [place_of("a", LLM), place_of("b", VISION)]

    assert gpus(facts, [limit_of(None, 6), limit_of(LLM, None)]) == [3, 3]
    assert gpus(facts, [limit_of(None, None), limit_of(LLM, 2)]) == [2, OPEN_UNITS]


def test_a_suspended_namespace_is_shut_and_what_it_holds_is_given_to_nobody() -> None:
    shut = place_of("a", nominal=said(6, used=5), is_suspended=True)
    open_one = place_of("b", nominal=said(2, used=1))

    assert gpus([shut, open_one], [limit_of(LLM, 8)]) == [0, 2]
    assert gpus([shut], [limit_of(LLM, None)]) == [0]


def test_a_suspended_tenant_without_any_limit_is_shut_and_open_again_when_resumed() -> None:
    shut = place_of("a", is_suspended=True)
    resumed = place_of("a", nominal=CapFacts(desired={GPU: 0}))

    assert gpus([shut], []) == [0]
    assert gpus([resumed], []) == [OPEN_UNITS]


def test_a_limit_of_one_cluster_binds_its_namespaces_only_and_caps_the_wider_one() -> None:
    facts = [place_of("a", cluster="ampere"), place_of("b", cluster="hopper")]

    assert gpus(facts, [limit_of(LLM, 8), limit_of(LLM, 2, cluster="ampere")]) == [2, 6]
    assert gpus(facts, [limit_of(LLM, 3, cluster="ampere")]) == [3, 0]


TWO = ("nvidia.com/gpu", "nvidia.com/a100")
TWO_KEYS = tuple(f"requests.{name}" for name in TWO)
TWO_SIZES = dict.fromkeys(TWO, GPUSize.LARGE)


def test_a_limit_of_a_model_binds_what_can_only_be_that_model() -> None:
    models = {"nvidia.com/gpu": "H100", "nvidia.com/a100": "A100"}
    facts = [place_of("a", offered=TWO, sizes=TWO_SIZES, models=models)]

    reported = plan(facts, [limit_of(LLM, 8), limit_of(LLM, 3, model="H100")])["a"]
    alone = plan(facts, [limit_of(LLM, 3, model="H100")])["a"]

    assert [reported[key] for key in TWO_KEYS] == [3, 8]
    assert [alone[key] for key in TWO_KEYS] == [3, 0]


def test_a_resource_of_a_doubtful_model_is_bound_by_the_wide_limit_alone() -> None:
    assert gpus([place_of("a")], [limit_of(LLM, 8), limit_of(LLM, 3, model="H100")]) == [8]


def test_a_resource_of_a_doubtful_model_gets_the_sum_where_only_models_are_limited() -> None:
    limits = [limit_of(LLM, 3, model="H100"), limit_of(LLM, 2, model="A100")]
    further = limit_of(None, None, model="B200")

    assert gpus([place_of("a")], limits) == [5]
    assert gpus([place_of("a")], [*limits, further]) == [OPEN_UNITS]
    assert gpus([place_of("a", is_suspended=True)], limits) == [0]
    assert gpus([place_of("a")], [limit_of(LLM, 3, model="H100", cluster="ampere")]) == [0]


def burst_of(facts: PlaceFacts, limits: list[GrantedLimit]) -> dict[str, int]:
    (quota,) = plan_quotas([facts], limits).values()
    return quota.burst


def test_burst_is_a_wall_of_its_own() -> None:
    facts = [
        place_of("a", nominal=held(4), burst=held(1)),
        place_of("b", nominal=held(0), burst=held(1)),
    ]

    planned = plan_quotas(facts, [limit_of(LLM, 4, burst=6)]).values()

    assert [(one.hard[GPU], one.burst[GPU]) for one in planned] == [(4, 3), (0, 3)]


def test_burst_is_not_spoken_of_where_nobody_may_and_falls_to_zero_where_somebody_could() -> None:
    once = place_of("a", burst=CapFacts(desired={GPU: 4}))

    assert burst_of(place_of("a"), [limit_of(LLM, 8)]) == {}
    assert burst_of(once, [limit_of(LLM, 8)]) == {GPU: 0, MIG: 0, ODD: 0}


def test_a_claim_cannot_burst_because_it_has_no_priority() -> None:
    facts = place_of("a", offered=("claim/gpu",), sizes={"claim/gpu": GPUSize.LARGE})

    (quota,) = plan_quotas([facts], [limit_of(LLM, 8, burst=2)]).values()

    devices = "gpu.deviceclass.resource.k8s.io/devices"
    implicit = "requests.deviceclass.resource.kubernetes.io/gpu"
    assert quota.hard == {devices: 8, implicit: 8}
    assert quota.burst == {implicit: 2}


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
        min_size=1,
        unique_by=lambda limit: (limit.project_id, limit.selector),
    ),
    used=st.lists(st.integers(min_value=0, max_value=9), min_size=5, max_size=5),
)
def test_no_limit_is_ever_admitted_twice_over_its_namespaces(
    limits: list[GrantedLimit], used: list[int]
) -> None:
    projects = [LLM, LLM, VISION, VISION, UUID(int=13)]
    facts = [
        place_of(
            f"n{i}",
            project,
            nominal=CapFacts(
                used={(GPUSize.LARGE, "H100"): used[i], (GPUSize.SMALL, "H100"): used[-i]}
            ),
        )
        for i, project in enumerate(projects)
    ]

    reported = plan(facts, limits)

    for key, size in ((GPU, GPUSize.LARGE), (MIG, GPUSize.SMALL)):
        units = {
            one.project_id: one.nominal_units or 0 for one in limits if one.selector.size is size
        }
        for project in (LLM, VISION):
            own = [fact.place.namespace for fact in facts if fact.project_id == project]
            most = sum(reported[name][key] for name in own if name in reported)
            assert most <= units.get(project, units.get(None, 0))
        if sum(v for k, v in units.items() if k) <= units.get(None, -1):
            assert sum(hard[key] for hard in reported.values()) <= units[None]


def test_where_admission_counts_every_pod_each_namespace_gets_the_whole_limit() -> None:
    facts = [
        place_of("a", is_counted=True),
        place_of("b", is_counted=True),
        place_of("c", is_counted=True, cluster="ampere"),
    ]

    assert gpus(facts, [limit_of(LLM, 9)]) == [9, 9, 9]


def test_one_namespace_that_is_not_counted_keeps_the_limit_divided() -> None:
    facts = [place_of("a", is_counted=True), place_of("b", is_counted=True), place_of("c")]

    assert gpus(facts, [limit_of(LLM, 9)]) == [3, 3, 3]


def test_a_limit_of_one_cluster_is_whole_where_that_cluster_counts() -> None:
    facts = [
        place_of("a", is_counted=True),
        place_of("b", is_counted=True),
        place_of("c", cluster="ampere"),
    ]
    limits = [limit_of(LLM, 4, cluster="hopper"), limit_of(LLM, 5, cluster="ampere")]

    assert gpus(facts, limits) == [5, 4, 4]


def test_what_projects_leave_of_an_organization_is_divided_since_nothing_counts_it() -> None:
    projects = {"a": LLM, "b": VISION, "c": UUID(int=13)}
    facts = [place_of(name, project, is_counted=True) for name, project in projects.items()]

    assert gpus(facts, [limit_of(None, 10), limit_of(LLM, 4)]) == [4, 3, 3]


def test_an_organizations_limit_that_no_project_takes_from_is_whole() -> None:
    facts = [place_of("a", LLM, is_counted=True), place_of("b", VISION, is_counted=True)]

    assert gpus(facts, [limit_of(None, 10)]) == [10, 10]
    assert gpus(facts, [limit_of(None, 10, percent=200), limit_of(LLM, 8)]) == [8, 10]


def test_a_whole_limit_leaves_a_suspended_namespace_nothing() -> None:
    facts = [place_of("a", is_counted=True), place_of("b", is_counted=True, is_suspended=True)]

    assert gpus(facts, [limit_of(LLM, 9)]) == [9, 0]


def test_burst_units_are_whole_too() -> None:
    facts = [place_of("a", is_counted=True), place_of("b", is_counted=True)]

    planned = plan_quotas(facts, [limit_of(LLM, 4, burst=6)])

    assert [quota.burst[GPU] for quota in planned.values()] == [6, 6]


def test_a_narrower_limit_caps_a_whole_one() -> None:
    facts = [
        place_of("a", is_counted=True, models={"nvidia.com/gpu": "H100"}),
        place_of("b", is_counted=True, models={"nvidia.com/gpu": "A100"}),
    ]

    assert gpus(facts, [limit_of(LLM, 9), limit_of(LLM, 3, model="H100")]) == [3, 9]


def test_a_lowered_limit_that_admission_holds_lets_another_project_be_raised_at_once() -> None:
    before = CapFacts(desired={GPU: 8}, ceiling={GPU: 8})
    small = CapFacts(desired={GPU: 2}, ceiling={GPU: 2})
    facts = [
        place_of("a", LLM, is_counted=True, nominal=before),
        place_of("b", VISION, nominal=small),
    ]

    assert gpus(facts, [limit_of(None, 10), limit_of(LLM, 3), limit_of(VISION, 7)]) == [3, 7]


def test_when_nothing_counts_any_more_the_whole_limits_are_lowered_before_any_is_raised() -> None:
    whole = CapFacts(used={(GPUSize.LARGE, "H100"): 5}, desired={GPU: 9}, ceiling={GPU: 9})
    other = CapFacts(desired={GPU: 9}, ceiling={GPU: 9})
    facts = [place_of("a", nominal=whole), place_of("b", nominal=other), place_of("c")]

    assert gpus(facts, [limit_of(LLM, 9)]) == [8, 1, 0]
