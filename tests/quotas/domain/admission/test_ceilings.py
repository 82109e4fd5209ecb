"""The most one pod could ever be given."""

from dataclasses import replace
from uuid import UUID

import pytest

from metering.domain.catalogue.units import GPUSize
from quotas.domain.admission.demands import Asker, CeilingLimit, ceiling_of
from quotas.domain.admission.values import Demand

LLM, CV = UUID(int=1), UUID(int=2)
HOPPER, AMPERE = UUID(int=3), UUID(int=4)
ASKER = Asker(project_id=LLM, cluster_id=HOPPER, owner="alice", is_burst=False)
DEMAND = Demand("nvidia.com/gpu", GPUSize.LARGE, 4, ("A100", "H100"))


def Limit(**changes: object) -> CeilingLimit:  # noqa: N802 - Reads as what it makes.
    anybody = CeilingLimit(None, None, GPUSize.LARGE, "", None, nominal_units=8, burst_units=2)
    return replace(anybody, **changes)  # type: ignore[arg-type]


def ceiling(*limits: CeilingLimit, asker: Asker = ASKER, demand: Demand = DEMAND) -> int | None:
    return ceiling_of(limits, demand=demand, asker=asker)


def test_the_least_limit_that_binds_counts() -> None:
    assert ceiling(Limit(), Limit(project_id=LLM, nominal_units=3), Limit(username="alice")) == 3


@pytest.mark.parametrize(
    "other",
    [
        Limit(project_id=CV, nominal_units=0),
        Limit(username="bob", nominal_units=0),
        Limit(size=GPUSize.SMALL, nominal_units=0),
        Limit(model_group="B200", nominal_units=0),
        Limit(cluster_id=AMPERE, nominal_units=0),
        Limit(nominal_units=None),
    ],
    ids=str,
)
def test_what_does_not_bind_counts_for_nothing(other: CeilingLimit) -> None:
    assert ceiling(other) is None
    assert ceiling(other, Limit()) == 8


@pytest.mark.parametrize(
    "one",
    [
        Limit(model_group="H100", nominal_units=1),
        Limit(cluster_id=HOPPER, nominal_units=1),
        Limit(project_id=LLM, username="alice", nominal_units=1),
    ],
    ids=str,
)
def test_what_is_narrower_binds_too(one: CeilingLimit) -> None:
    assert ceiling(Limit(), one) == 1


def test_a_pod_that_may_land_anywhere_is_bound_by_every_model() -> None:
    anywhere = replace(DEMAND, model_groups=())

    assert ceiling(Limit(model_group="B200", nominal_units=1), demand=anywhere) == 1


def test_a_preemptible_pod_is_bound_by_burst_units() -> None:
    burst = replace(ASKER, is_burst=True)

    assert ceiling(Limit(), Limit(nominal_units=None, burst_units=5), asker=burst) == 2


def test_without_a_limit_there_is_no_ceiling() -> None:
    assert ceiling() is None
