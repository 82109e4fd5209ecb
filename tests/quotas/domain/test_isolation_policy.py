"""Which isolation policy binds a pod, and what holds without one."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.isolation.policy import (
    DEFAULT_MODES,
    Policy,
    ServingMode,
    WorkKind,
    terms_for,
)

WHOLE = frozenset({ServingMode.WHOLE})
MIG = frozenset({ServingMode.MIG})
MPS = frozenset({ServingMode.MPS})
SLICED = frozenset({ServingMode.TIME_SLICING})

PROJECT_KIND = Policy("acme", "vision", WorkKind.TRAINING, WHOLE)
PROJECT_ANY = Policy("acme", "vision", None, MIG)
ORGANIZATION_KIND = Policy("acme", None, WorkKind.TRAINING, MPS)
ORGANIZATION_ANY = Policy("acme", None, None, SLICED)
LADDER = (PROJECT_KIND, PROJECT_ANY, ORGANIZATION_KIND, ORGANIZATION_ANY)


@pytest.mark.parametrize("given_from", range(4))
def test_the_most_specific_policy_binds(given_from: int) -> None:
    policies = LADDER[given_from:]

    terms = terms_for(policies, organization="acme", project="vision", work_kind="training")

    assert terms.modes == policies[0].modes
    assert terms.policy == policies[0].holder


def test_which_policy_binds_does_not_depend_on_their_order() -> None:
    found = {
        terms_for(order, organization="acme", project="vision", work_kind="training")
        for order in permutations(LADDER)
    }

    assert [terms.policy for terms in found] == ["the policy of project vision for training"]


def test_a_policy_for_another_kind_does_not_bind() -> None:
    terms = terms_for(
        [PROJECT_KIND, ORGANIZATION_KIND],
        organization="acme",
        project="vision",
        work_kind="inference",
    )

    assert terms.policy == "the default for inference"
    assert terms.modes == DEFAULT_MODES[WorkKind.INFERENCE]


def test_policies_of_other_tenants_do_not_bind() -> None:
    others = [Policy("globex", "vision", None, WHOLE), Policy("acme", "speech", None, WHOLE)]

    terms = terms_for(others, organization="acme", project="vision", work_kind="")

    assert terms.policy == "the default for development"


@pytest.mark.parametrize(
    ("kind", "modes"),
    [
        ("training", {"dedicated", "whole"}),
        ("development", {"dedicated", "whole", "mig", "mps", "time-slicing"}),
        ("inference", {"dedicated", "whole", "mig", "mps"}),
    ],
)
def test_each_kind_of_work_has_its_default(kind: str, modes: set[str]) -> None:
    terms = terms_for([], organization="acme", project="vision", work_kind=kind)

    assert terms.work_kind == kind
    assert {mode.value for mode in terms.modes} == modes
    assert terms.allow_shared_with_other_tenants is False
    assert terms.policy == f"the default for {kind}"


def test_a_pod_without_a_label_is_of_its_projects_kind_before_its_organizations() -> None:
    organization = Policy("acme", None, None, WHOLE, default_kind=WorkKind.INFERENCE)
    project = Policy("acme", "vision", None, MIG, default_kind=WorkKind.TRAINING)
    silent = Policy("acme", "vision", None, MIG)

    kinds = [
        terms_for(policies, organization="acme", project="vision", work_kind="").work_kind
        for policies in ([organization, project], [organization, silent], [silent], [])
    ]

    assert kinds == ["training", "inference", "development", "development"]


def test_the_label_goes_before_the_projects_kind() -> None:
    project = Policy("acme", "vision", None, MIG, default_kind=WorkKind.TRAINING)

    terms = terms_for([project], organization="acme", project="vision", work_kind="inference")

    assert terms.work_kind is WorkKind.INFERENCE


def test_a_policy_says_whose_it_is_in_words() -> None:
    assert ORGANIZATION_ANY.holder == "the policy of organization acme for any work"
    assert PROJECT_KIND.holder == "the policy of project vision for training"


@given(
    policies=st.lists(st.sampled_from(LADDER), unique=True),
    kind=st.sampled_from(["", *(kind.value for kind in WorkKind)]),
)
def test_something_always_binds(policies: list[Policy], kind: str) -> None:
    terms = terms_for(policies, organization="acme", project="vision", work_kind=kind)

    assert terms.work_kind in set(WorkKind)
    assert terms.policy.startswith(("the policy of ", "the default for "))
