"""The generation stamped on quota objects: whose it is, and what may follow it."""

import pytest

from quotas.adapters.quota_objects import (
    GENERATION,
    GENERATION_MAX,
    NamespaceQuotas,
    generation_in,
    quotas_in,
)
from quotas.protocols import DesiredQuota, QuotaConflictError, StaleGenerationError

DESIRED = DesiredQuota("llm", {"requests.nvidia.com/gpu": 8}, generation=3)


def stamped(generation: str) -> NamespaceQuotas:
    metadata = {"name": "gpu-ledger", "annotations": {GENERATION: generation}}
    return quotas_in("llm", {"items": [{"metadata": metadata}]})


@pytest.mark.parametrize("generation", ["0", "3", "many", "-5", ""])
def test_what_is_not_newer_may_be_followed(generation: str) -> None:
    stamped(generation).refuse_stale(DESIRED)


@pytest.mark.parametrize("generation", ["4", str(GENERATION_MAX)])
def test_behind_a_newer_one_nothing_is_written(generation: str) -> None:
    with pytest.raises(StaleGenerationError) as refused:
        stamped(generation).refuse_stale(DESIRED)

    assert refused.value.generation == int(generation)


@pytest.mark.parametrize(
    "generation", [str(GENERATION_MAX + 1), "9223372036854775807", "9" * 18, "1" * 5_000]
)
def test_one_that_nothing_could_follow_is_a_conflict_for_a_person(generation: str) -> None:
    with pytest.raises(QuotaConflictError, match="is none of ours"):
        stamped(generation).refuse_stale(DESIRED)

    assert generation_in({GENERATION: generation}) > GENERATION_MAX
