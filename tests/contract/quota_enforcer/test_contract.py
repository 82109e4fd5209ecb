"""What every quota enforcer does, whatever it speaks with."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from quotas.protocols import (
    DesiredQuota,
    LiveQuota,
    QuotaConflictError,
    StaleGenerationError,
)
from tenants.domain.errors import SourceUnavailableError
from tests.contract.quota_enforcer.benches import Bench, read_until

GPU = "requests.nvidia.com/gpu"
MIG = "requests.nvidia.com/mig-1g.10gb"


def apply(bench: Bench, namespace: str, generation: int = 1, **hard: int) -> LiveQuota:
    named = {"gpu": GPU, "mig": MIG}
    desired = DesiredQuota(namespace, {named[k]: v for k, v in hard.items()}, generation)
    return bench.enforcer.apply(bench.endpoint, desired)


def read(bench: Bench, namespace: str) -> LiveQuota:
    return bench.enforcer.read(bench.endpoint, namespace)


def test_a_namespace_without_a_quota_reads_empty(bench: Bench) -> None:
    namespace = bench.make_namespace()

    assert read(bench, namespace) == LiveQuota(namespace, {}, {}, 0)


def test_what_is_applied_is_read_back_from_the_status(bench: Bench) -> None:
    namespace = bench.make_namespace()

    live = apply(bench, namespace, 3, gpu=8, mig=0)

    assert (dict(live.hard), dict(live.used)) == ({GPU: 8, MIG: 0}, {GPU: 0, MIG: 0})
    assert (live.generation, live.managers, live.foreign) == (3, (), {})
    assert read(bench, namespace) == live


def test_applying_again_changes_nothing(bench: Bench) -> None:
    namespace = bench.make_namespace()
    first = apply(bench, namespace, 3, gpu=8)

    assert apply(bench, namespace, 3, gpu=8) == first


def test_a_newer_generation_replaces_an_older_one(bench: Bench) -> None:
    namespace = bench.make_namespace()
    apply(bench, namespace, 1, gpu=8, mig=2)

    live = apply(bench, namespace, 2, gpu=3, mig=4)

    assert (dict(live.hard), live.generation) == ({GPU: 3, MIG: 4}, 2)


def test_a_key_that_is_not_sent_any_more_is_removed(bench: Bench) -> None:
    namespace = bench.make_namespace()
    apply(bench, namespace, 1, gpu=8, mig=2)

    apply(bench, namespace, 2, gpu=8)

    assert dict(read_until(bench, namespace, {GPU: 8}).hard) == {GPU: 8}


@pytest.mark.parametrize("units", [0, 1, 999, 1000, 12_000, 1_000_000])
def test_units_come_back_whole_however_they_are_spelled(bench: Bench, units: int) -> None:
    namespace = bench.make_namespace()

    assert dict(apply(bench, namespace, gpu=units).hard) == {GPU: units}


def test_an_older_generation_is_refused_and_changes_nothing(bench: Bench) -> None:
    namespace = bench.make_namespace()
    newer = apply(bench, namespace, 7, gpu=2)

    with pytest.raises(StaleGenerationError) as refusal:
        apply(bench, namespace, 6, gpu=8)

    assert refusal.value.generation == 7
    assert read(bench, namespace) == newer


def test_a_late_worker_among_many_never_wins(bench: Bench) -> None:
    namespace = bench.make_namespace()
    apply(bench, namespace, 1, gpu=1)
    generations = [5, 2, 9, 3, 8, 4, 7, 6]

    def attempt(generation: int) -> int:
        try:
            return apply(bench, namespace, generation, gpu=generation).generation
        except (StaleGenerationError, SourceUnavailableError):
            return 0

    with ThreadPoolExecutor(4) as pool:
        reached = max(pool.map(attempt, generations))

    live = read_until(bench, namespace, {GPU: reached})
    assert reached > 1
    assert (live.generation, dict(live.hard)) == (reached, {GPU: reached})


def test_another_managers_number_is_reported_by_name_and_kept(bench: Bench) -> None:
    namespace = bench.make_namespace()
    apply(bench, namespace, 1, gpu=8)
    bench.edit_by_hand(namespace, {GPU: 64}, manager="kubectl-edit")

    with pytest.raises(QuotaConflictError) as refusal:
        apply(bench, namespace, 2, gpu=4)

    assert refusal.value.managers == ("kubectl-edit",)
    assert "kubectl-edit" in str(refusal.value)
    live = read_until(bench, namespace, {GPU: 64})
    assert (dict(live.hard), live.generation) == ({GPU: 64}, 1)
    assert live.managers == ("kubectl-edit",)


def test_agreeing_with_another_manager_is_no_conflict(quotas: Bench) -> None:
    namespace = quotas.make_namespace()
    quotas.edit_by_hand(namespace, {GPU: 8}, manager="kubectl-edit")

    assert dict(apply(quotas, namespace, 1, gpu=8).hard) == {GPU: 8}


def test_a_key_somebody_added_stays_and_is_reported(quotas: Bench) -> None:
    namespace = quotas.make_namespace()
    apply(quotas, namespace, 1, gpu=8)
    quotas.edit_by_hand(namespace, {MIG: 5}, manager="kubectl-edit")

    apply(quotas, namespace, 2, gpu=6)

    assert dict(read_until(quotas, namespace, {GPU: 6, MIG: 5}).hard) == {GPU: 6, MIG: 5}


def test_a_deleted_quota_reads_empty_and_is_made_again(bench: Bench) -> None:
    namespace = bench.make_namespace()
    apply(bench, namespace, 4, gpu=8)
    bench.delete_by_hand(namespace)

    gone = read_until(bench, namespace, {})
    again = apply(bench, namespace, 4, gpu=8)

    assert gone == LiveQuota(namespace, {}, {}, 0)
    assert (dict(again.hard), again.generation) == ({GPU: 8}, 4)


def test_a_missing_namespace_is_said_to_be_missing(bench: Bench) -> None:
    namespace = bench.missing_namespace()

    with pytest.raises(SourceUnavailableError) as refusal:
        apply(bench, namespace, gpu=8)

    assert refusal.value.reason == "namespace_missing"


def apply_burst(
    bench: Bench, namespace: str, generation: int, nominal: int, burst: int
) -> LiveQuota:
    desired = DesiredQuota(namespace, {GPU: nominal}, generation, burst_hard={GPU: burst})
    return bench.enforcer.apply(bench.endpoint, desired)


def test_burst_is_a_wall_beside_the_nominal_one(bench: Bench) -> None:
    namespace = bench.make_namespace()

    live = apply_burst(bench, namespace, 1, 4, 2)

    assert (dict(live.hard), dict(live.burst_hard)) == ({GPU: 4}, {GPU: 2})
    assert (dict(live.total_hard), live.generation) == ({GPU: 6}, 1)
    assert read(bench, namespace) == live


def test_burst_falls_to_zero_and_its_objects_stay(bench: Bench) -> None:
    namespace = bench.make_namespace()
    apply_burst(bench, namespace, 1, 4, 2)

    live = apply_burst(bench, namespace, 2, 5, 0)

    assert (dict(live.hard), dict(live.burst_hard), dict(live.total_hard)) == (
        {GPU: 5},
        {GPU: 0},
        {GPU: 5},
    )


def test_a_namespace_learns_to_burst_later(bench: Bench) -> None:
    namespace = bench.make_namespace()
    apply(bench, namespace, 1, gpu=4)

    live = apply_burst(bench, namespace, 2, 4, 3)

    assert (dict(live.hard), dict(live.total_hard)) == ({GPU: 4}, {GPU: 7})


def test_another_quota_in_the_namespace_is_reported_and_left_alone(quotas: Bench) -> None:
    namespace = quotas.make_namespace()
    quotas.add_foreign(namespace, "team-made", {GPU: 1})

    live = apply(quotas, namespace, 1, gpu=8)

    assert dict(live.hard) == {GPU: 8}
    assert {name: dict(hard) for name, hard in live.foreign.items()} == {"team-made": {GPU: 1}}
    assert live.managers == ()
