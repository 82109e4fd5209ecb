"""Isolation: which pods are refused for the way they would share a device, and what they read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize, SharingMode
from quotas.domain.admission.values import Demand
from quotas.domain.isolation.policy import Policy, ServingMode, WorkKind
from quotas.domain.isolation.rules import (
    DEDICATED_LABEL,
    PRODUCT_LABEL,
    Alternative,
    IsolationCode,
    IsolationProblem,
    ResourceOption,
    find_isolation_problem,
)

GPU = "nvidia.com/gpu"
SLICE = "nvidia.com/mig-1g.10gb"
H100 = "NVIDIA-H100-80GB-HBM3"
WHOLE = ResourceOption(GPU, SharingMode.WHOLE, H100, nodes=frozenset({"whole-1", "whole-2"}))
SLICED = ResourceOption(
    GPU, SharingMode.TIME_SLICING, f"{H100}-SHARED", nodes=frozenset({"sliced-1"})
)
MIG = ResourceOption(SLICE, SharingMode.MIG, H100, nodes=frozenset({"mig-1"}))
MPS = ResourceOption(
    "nvidia.com/gpu.shared", SharingMode.MPS, f"{H100}-SHARED", nodes=frozenset({"mps-1"})
)
OWN = ResourceOption(GPU, SharingMode.WHOLE, H100, dedicated_to="acme", nodes=frozenset({"own-1"}))
OWN_SLICED = ResourceOption(
    GPU, SharingMode.TIME_SLICING, f"{H100}-SHARED", "acme", nodes=frozenset({"own-2"})
)
OTHERS = ResourceOption(GPU, SharingMode.WHOLE, H100, "globex", nodes=frozenset({"globex-1"}))


def demand(resource: str = GPU, *modes: str) -> Demand:
    return Demand(resource, GPUSize.LARGE, 1, sharing_modes=tuple(sorted(modes)))


def judge(
    *offers: ResourceOption,
    asked: Demand | None = None,
    kind: str = "",
    policies: tuple[Policy, ...] = (),
    nodes: frozenset[str] | None = None,
    has_other_tenants: bool = True,
) -> IsolationProblem | None:
    return find_isolation_problem(
        policies=policies,
        organization="acme",
        project="vision",
        work_kind=kind,
        demands=[asked or demand()],
        offers=offers,
        nodes=nodes,
        has_other_tenants=has_other_tenants,
    )


def code_of(problem: IsolationProblem | None) -> IsolationCode | None:
    return None if problem is None else problem.code


def allowing(
    *modes: ServingMode, allow_shared_with_other_tenants: bool = False
) -> tuple[Policy, ...]:
    return (Policy("acme", None, None, frozenset(modes), allow_shared_with_other_tenants),)


@pytest.mark.parametrize("kind", list(WorkKind))
def test_a_whole_gpu_serves_every_kind_of_work(kind: WorkKind) -> None:
    assert judge(WHOLE, kind=kind) is None


@pytest.mark.parametrize(
    ("kind", "offer", "refused"),
    [
        ("training", MIG, True),
        ("training", MPS, True),
        ("development", MIG, False),
        ("development", MPS, False),
        ("inference", MIG, False),
        ("inference", MPS, False),
    ],
)
def test_alone_on_a_cluster_the_kind_of_work_decides(
    kind: str, offer: ResourceOption, *, refused: bool
) -> None:
    problem = judge(offer, asked=demand(offer.resource), kind=kind, has_other_tenants=False)

    assert code_of(problem) == (IsolationCode.MODE_NOT_ALLOWED if refused else None)


def test_inference_takes_no_turns_on_a_device() -> None:
    problem = judge(SLICED, kind="inference", has_other_tenants=False)

    assert code_of(problem) is IsolationCode.MODE_NOT_ALLOWED


@pytest.mark.parametrize("offer", [SLICED, MPS])
def test_several_tenants_do_not_meet_on_one_device_by_default(offer: ResourceOption) -> None:
    asked = demand(offer.resource)

    assert code_of(judge(offer, asked=asked)) is IsolationCode.TENANTS_MEET
    assert judge(offer, asked=asked, has_other_tenants=False) is None


def test_several_tenants_may_use_instances_of_one_gpu() -> None:
    assert judge(MIG, asked=demand(SLICE)) is None


def test_a_policy_may_let_tenants_meet() -> None:
    policies = allowing(ServingMode.TIME_SLICING, allow_shared_with_other_tenants=True)

    assert judge(SLICED, policies=policies) is None


def test_letting_tenants_meet_allows_no_further_mode() -> None:
    policies = allowing(ServingMode.WHOLE, allow_shared_with_other_tenants=True)

    assert code_of(judge(SLICED, policies=policies)) is IsolationCode.MODE_NOT_ALLOWED


def test_on_its_own_nodes_an_organization_meets_nobody() -> None:
    assert judge(OWN_SLICED) is None


def test_training_is_not_shared_on_its_own_nodes_either() -> None:
    assert code_of(judge(OWN_SLICED, kind="training")) is IsolationCode.MODE_NOT_ALLOWED


def test_dedicated_alone_refuses_whole_gpus_of_everybody() -> None:
    policies = allowing(ServingMode.DEDICATED)

    assert judge(OWN, policies=policies) is None
    assert code_of(judge(WHOLE, policies=policies)) is IsolationCode.MODE_NOT_ALLOWED


def test_a_policy_without_modes_lets_nothing_in() -> None:
    problem = judge(WHOLE, OWN, policies=allowing())

    assert problem is not None
    assert problem.message == (
        "nvidia.com/gpu may be served by whole, which the policy of organization acme for any "
        "work does not allow (allowed: nothing)."
    )
    assert problem.remedy == (
        "This cluster offers nothing that is allowed: ask for a change of the policy."
    )


def test_what_may_land_on_a_shared_device_is_refused_with_what_would_do() -> None:
    problem = judge(WHOLE, SLICED, MIG, kind="training")

    assert problem == IsolationProblem(
        code=IsolationCode.MODE_NOT_ALLOWED,
        work_kind="training",
        policy="the default for training",
        allowed_modes=("dedicated", "whole"),
        resource=GPU,
        mode="time-slicing",
        alternatives=(Alternative(GPU, ((PRODUCT_LABEL, H100),)),),
    )
    assert problem.message == (
        "nvidia.com/gpu may be served by time-slicing, which the default for training does not "
        "allow (allowed: dedicated, whole)."
    )
    assert problem.remedy == f"Ask for nvidia.com/gpu with nodeSelector {PRODUCT_LABEL}={H100}."


def test_a_pod_that_is_kept_to_allowed_nodes_is_let_in() -> None:
    assert judge(WHOLE, SLICED, kind="training", nodes=frozenset({"whole-2"})) is None
    assert judge(WHOLE, SLICED, kind="training", nodes=frozenset({"sliced-1"})) is not None


def test_what_may_land_nowhere_is_not_for_isolation_to_refuse() -> None:
    assert judge(SLICED, kind="training", nodes=frozenset({"elsewhere"})) is None


def test_an_offer_whose_nodes_are_unknown_may_be_anywhere() -> None:
    nowhere = ResourceOption(GPU, SharingMode.TIME_SLICING)

    problem = judge(nowhere, kind="training", nodes=frozenset({"whole-1"}))

    assert code_of(problem) is IsolationCode.MODE_NOT_ALLOWED


def test_meeting_tenants_is_reported_with_the_slices_that_part_them() -> None:
    problem = judge(SLICED, MIG)

    assert problem is not None
    assert problem.message == (
        "nvidia.com/gpu may be served by time-slicing on a device that other organizations use, "
        "which the default for development does not allow."
    )
    assert problem.remedy == "Ask for nvidia.com/mig-1g.10gb."


def test_nodes_of_others_are_no_offer() -> None:
    problem = judge(OTHERS, MIG)

    assert code_of(problem) is IsolationCode.DEDICATED_TO_OTHERS
    assert problem is not None
    assert problem.message == (
        "nvidia.com/gpu is offered only on nodes that are dedicated to others."
    )
    assert problem.alternatives == (Alternative(SLICE),)


def test_who_can_go_elsewhere_is_not_judged_by_nodes_of_others() -> None:
    assert judge(OTHERS, WHOLE) is None


def test_own_nodes_are_named_where_only_they_will_do() -> None:
    problem = judge(OWN, WHOLE, policies=allowing(ServingMode.DEDICATED))

    assert problem is not None
    assert problem.alternatives == (Alternative(GPU, ((DEDICATED_LABEL, "acme"),)),)


def test_product_and_dedication_are_named_together_where_neither_will_do_alone() -> None:
    problem = judge(OWN, OWN_SLICED, WHOLE, policies=allowing(ServingMode.DEDICATED))

    assert problem is not None
    assert problem.alternatives == (
        Alternative(GPU, ((DEDICATED_LABEL, "acme"), (PRODUCT_LABEL, H100))),
    )
    assert str(problem.alternatives[0]) == (
        f"nvidia.com/gpu with nodeSelector {DEDICATED_LABEL}=acme, {PRODUCT_LABEL}={H100}"
    )


def test_a_device_claim_is_judged_by_what_it_shows() -> None:
    claim = "claim/gpu.nvidia.com"

    assert judge(asked=demand(claim, "whole"), kind="training") is None
    assert judge(asked=demand(claim, "dedicated"), policies=allowing(ServingMode.DEDICATED)) is None
    problem = judge(asked=demand(claim, "mig", "whole"), kind="training")
    assert problem is not None
    assert (problem.resource, problem.mode, problem.alternatives) == (claim, "mig", ())


def test_what_nobody_knows_anything_about_is_not_for_isolation_to_refuse() -> None:
    assert judge(asked=demand("claim/unknown"), kind="training") is None


def test_a_label_that_is_no_kind_of_work_is_refused() -> None:
    problem = judge(WHOLE, kind="batch")

    assert problem is not None
    assert problem.code is IsolationCode.WORK_KIND_UNKNOWN
    assert problem.message == "The work kind 'batch' is not known."
    assert problem.remedy == "Use one of: training, development, inference."


def test_the_second_demand_is_judged_as_well() -> None:
    problem = find_isolation_problem(
        policies=(),
        organization="acme",
        project="vision",
        work_kind="training",
        demands=[demand(GPU), demand(SLICE)],
        offers=[WHOLE, MIG],
    )

    assert problem is not None
    assert problem.resource == SLICE


offers_lists = st.lists(
    st.builds(
        ResourceOption,
        resource=st.sampled_from([GPU, SLICE, "nvidia.com/gpu.shared"]),
        mode=st.sampled_from(list(SharingMode)),
        product=st.sampled_from([H100, f"{H100}-SHARED", "NVIDIA-A100-SXM4-80GB", ""]),
        dedicated_to=st.sampled_from(["", "acme", "globex"]),
        nodes=st.integers(0, 7).map(lambda number: frozenset({f"node-{number}"})),
    ),
    min_size=1,
    max_size=8,
)
policy_tuples = st.frozensets(st.sampled_from(list(ServingMode))).flatmap(
    lambda modes: st.booleans().map(
        lambda meets: allowing(*modes, allow_shared_with_other_tenants=meets)
    )
)


@given(offers=offers_lists, policies=policy_tuples, others=st.booleans())
def test_what_a_refusal_recommends_is_let_in(
    offers: list[ResourceOption], policies: tuple[Policy, ...], *, others: bool
) -> None:
    problem = judge(*offers, policies=policies, has_other_tenants=others)

    for alternative in () if problem is None else problem.alternatives:
        there = [
            offer
            for offer in offers
            if offer.resource == alternative.resource
            and dict(alternative.node_selector).items()
            <= {PRODUCT_LABEL: offer.product, DEDICATED_LABEL: offer.dedicated_to}.items()
        ]
        asked = demand(alternative.resource)
        assert there
        assert judge(*there, asked=asked, policies=policies, has_other_tenants=others) is None


@given(offers=offers_lists, policies=policy_tuples, seed=st.randoms(use_true_random=False))
def test_the_answer_does_not_depend_on_the_order_of_offers(
    offers: list[ResourceOption], policies: tuple[Policy, ...], seed: object
) -> None:
    shuffled = list(offers)
    seed.shuffle(shuffled)  # type: ignore[attr-defined] # Hypothesis' random.

    assert judge(*shuffled, policies=policies) == judge(*offers, policies=policies)


@given(offers=offers_lists, policies=policy_tuples)
def test_anyone_who_is_let_in_is_let_in_with_more_allowed(
    offers: list[ResourceOption], policies: tuple[Policy, ...]
) -> None:
    if judge(*offers, policies=policies) is None:
        everything = allowing(*ServingMode, allow_shared_with_other_tenants=True)

        assert judge(*offers, policies=everything) is None
