"""What live use does where the watch has reported little, late, or more than fits."""

from datetime import datetime, timedelta

import pytest

from metering.models import ClaimConsumer
from quotas.domain.admission.live_use import Bypass, LiveUseSweep
from quotas.models import QuotaCounter, QuotaLimit, Reservation
from quotas.services.admission.live_use import repair_counters
from quotas.services.limits.changes import open_counter
from tenants.domain.actors import system_actor
from tenants.models import Cluster
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.admitting import (
    LATER,
    ask,
    beat,
    counted,
    demand,
    drifted,
    end,
    see,
    start,
    state,
    sweep,
)
from tests.support.quotas.builders import make_limit

ACTOR = system_actor("tests")
CLAIM = "claim/gpu.nvidia.com"


@pytest.mark.parametrize("heard_at", [None, LATER - timedelta(seconds=1)])
def test_nobody_expires_while_the_watch_is_blind(
    cluster: Cluster, limit: QuotaLimit, heard_at: datetime | None
) -> None:
    ask(cluster, "llm", "pod-1", demand(8))
    if heard_at is not None:
        beat(cluster, heard_at)
    late = LATER + timedelta(days=1)

    blind = sweep(late), ask(cluster, uid="pod-2", at=late).code
    beat(cluster, LATER)
    heard = ask(cluster, uid="pod-2", at=late).code

    assert (blind, heard) == ((LiveUseSweep(), "limit_reached"), "allowed")
    assert (state(), counted(limit)) == (("released", "expired"), (0, 1, 0, 0))


def test_a_claim_counts_once_for_all_pods_that_share_it(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    resource = "claim/gpu.nvidia.com"
    QuotaLimit.objects.update(burst_units=8)
    for uid in ("pod-1", "pod-2"):
        ask(cluster, "llm", uid, demand(resource=resource), is_burst=True, owner="bob")
        see(cluster, uid, bound_at=AT)
        ClaimConsumer.objects.create(
            cluster=cluster, claim_uid="claim-1", pod_uid=uid, pod_name=uid, begin_at=AT
        )
    claim = start(cluster, "claim-1", resource=resource)

    swept = sweep()
    shared = counted(limit)
    end(claim)
    sweep()

    assert swept == LiveUseSweep(released=2, found=1)
    assert (shared, counted(limit)) == ((0, 0, 1, 0), (0, 0, 0, 0))
    assert state("pod-1") == ("released", "handed_over")
    row = Reservation.objects.get(pod_uid="claim-1")
    assert (row.origin, row.username) == ("admission", "bob")


def test_units_beyond_32_bits_are_counted_and_stop_nobody(cast: Cast, cluster: Cluster) -> None:
    for number in range(3):
        start(cluster, f"pod-{number}", units=2**31 - 1)
    sweep()
    whole = make_limit(cast.acme, units=8)
    total = 3 * (2**31 - 1)

    open_counter(limit=whole, at=LATER)
    refused = ask(cluster, uid="one-more", at=LATER)
    QuotaCounter.objects.update(held_units=0)
    (repair,) = repair_counters(actor=ACTOR, at=LATER)

    assert refused.blocker is not None
    assert (refused.code, refused.blocker.used_units) == ("limit_reached", total)
    assert repair.drift_units == total
    assert counted(whole) == (total, 0, 0, 0)
    assert drifted() == []


def claim(cluster: Cluster, uid: str = "claim-1", units: int = 8) -> None:
    assert ask(cluster, "llm", uid, demand(units, resource=CLAIM)).is_allowed


def test_a_claim_does_not_expire_while_a_pod_waits_for_it(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    claim(cluster)
    see(cluster, "pod-1", requests={"claim/claim-1": 1})
    late = LATER + timedelta(days=1)
    beat(cluster, late)

    waiting = sweep(late), ask(cluster, uid="pod-2", at=late).code, counted(limit)
    start(cluster, "claim-1", resource=CLAIM, units=8)
    bound = sweep(late)

    assert waiting == (LiveUseSweep(), "limit_reached", (0, 8, 0, 0))
    assert bound == LiveUseSweep(changed=1)
    assert counted(limit) == (8, 0, 0, 0)
    assert Reservation.objects.get(pod_uid="claim-1").origin == "admission"


@pytest.mark.parametrize(
    "fields",
    [
        {"requests": {"claim/other": 1}},
        {"requests": {"claim/claim-1": 1}, "namespace": "other"},
        {"requests": {"claim/claim-1": 1}, "gone_at": AT},
    ],
)
def test_a_claim_that_nobody_waits_for_expires(
    cluster: Cluster, limit: QuotaLimit, fields: dict[str, object]
) -> None:
    claim(cluster)
    see(cluster, "pod-1", **fields)
    beat(cluster, LATER)

    assert sweep() == LiveUseSweep(released=1)
    assert state("claim-1") == ("released", "expired")
    assert counted(limit) == (0, 0, 0, 0)


def test_what_a_claim_did_not_get_of_its_alternatives_expires(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    ask(cluster, "llm", "claim-1", demand(resource=CLAIM), demand(resource="claim/other"))
    see(cluster, "pod-1", requests={"claim/claim-1": 1})
    start(cluster, "claim-1", resource=CLAIM)
    beat(cluster, LATER)

    assert sweep() == LiveUseSweep(released=1, changed=1)
    assert counted(limit) == (1, 0, 0, 0)


def test_a_claim_that_expired_counts_again_as_a_bypass_once_a_pod_waits_for_it(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    claim(cluster)
    beat(cluster, LATER)
    sweep()
    see(cluster, "pod-1", requests={"claim/claim-1": 1})

    swept, again = sweep(), sweep()

    assert swept == LiveUseSweep(changed=1, bypasses=(Bypass("hopper", "llm", "large", 1, 8),))
    assert again == LiveUseSweep()
    assert counted(limit) == (0, 8, 0, 0)
    assert Reservation.objects.get().origin == "found"
