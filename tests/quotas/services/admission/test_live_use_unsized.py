"""A running pod that was not admitted and has no known size: reported once, counted nowhere."""

from typing import Any, Final

import pytest
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from metering.models import PodAllocation
from quotas.domain.admission.live_use import Bypass, LiveUseSweep
from quotas.models import QuotaLimit, Reservation
from tenants.models import AuditEntry, Cluster, NamespaceBinding
from tests.support.builders import AT
from tests.support.quotas.admitting import (
    LATER,
    ask,
    beat,
    counted,
    drifted,
    end,
    start,
    state,
    sweep,
)
from tests.support.quotas.builders import audit_actions

UNSIZED: Final[dict[str, Any]] = {"size": "", "price_group": "", "catalogue_version": None}


def settle() -> None:
    """Let a catalogue come to know what it is."""
    PodAllocation.objects.filter(size="").update(
        size="large", price_group="H100/whole", catalogue_version=1
    )


def test_it_is_reported_once_and_counted_nowhere(cluster: Cluster, limit: QuotaLimit) -> None:
    start(cluster, units=2, **UNSIZED)
    start(cluster, "pod-2", units=3)

    swept = sweep(), sweep()

    assert swept == (
        LiveUseSweep(
            found=2,
            bypasses=(Bypass("hopper", "llm", "", 1, 2), Bypass("hopper", "llm", "large", 1, 3)),
        ),
        LiveUseSweep(),
    )
    assert AuditEntry.objects.get().facts == {
        "pods": 2,
        "units": 3,
        "namespaces": ["hopper/llm"],
        "pods_of_unknown_size": 1,
    }
    assert (counted(limit), drifted()) == ((3, 0, 0, 0), [])
    row = Reservation.objects.get(pod_uid="pod-1")
    assert (row.size, row.origin, state("pod-1")) == ("", "found", ("released", "unsized"))
    assert (row.held_at, row.released_at) == (None, LATER)


def test_once_its_size_is_known_it_counts_and_is_not_reported_again(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    start(cluster, units=2, **UNSIZED)
    sweep(AT)
    settle()

    assert sweep() == LiveUseSweep(changed=1)
    row = Reservation.objects.get()
    assert (row.size, row.model_groups, row.origin) == ("large", ["H100"], "found")
    assert (state(), row.held_at, row.released_at) == (("held", ""), LATER, None)
    assert counted(limit) == (2, 0, 0, 0)
    assert audit_actions() == ["quotas:admission:bypassed"]


@pytest.mark.usefixtures("limit")
def test_one_that_ended_or_lost_its_namespace_is_left_alone(cluster: Cluster) -> None:
    end(start(cluster, "pod-1", **UNSIZED), at=AT)
    ended = start(cluster, "pod-2", **UNSIZED)
    start(cluster, "pod-3", **UNSIZED)
    first = sweep(AT)
    end(ended)
    NamespaceBinding.objects.update(valid=DateTimeTZRange(empty=True))

    assert (first.found, sweep()) == (2, LiveUseSweep())
    settle()
    assert sweep() == LiveUseSweep()
    assert [state("pod-2"), state("pod-3")] == [("released", "unsized")] * 2


def test_where_nobody_is_let_in_it_is_no_bypass(cluster: Cluster) -> None:
    Cluster.objects.update(admission_mode="off")
    start(cluster, **UNSIZED)

    assert (sweep(), sweep()) == (LiveUseSweep(found=1), LiveUseSweep())
    assert not AuditEntry.objects.exists()


def test_what_was_let_in_counts_by_the_size_it_was_let_in_for(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    ask(cluster)
    start(cluster, **UNSIZED)

    assert sweep() == LiveUseSweep(changed=1)
    assert (state(), counted(limit)) == (("held", ""), (1, 0, 0, 0))


def test_what_expired_and_turns_up_counts_by_the_size_it_was_let_in_for(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    ask(cluster)
    beat(cluster)
    sweep()
    start(cluster, **UNSIZED)

    assert sweep() == LiveUseSweep(changed=1, bypasses=(Bypass("hopper", "llm", "large", 1, 1),))
    assert counted(limit) == (1, 0, 0, 0)


def test_it_is_not_let_in_afterwards(cluster: Cluster, limit: QuotaLimit) -> None:
    start(cluster, **UNSIZED)
    sweep()

    assert ask(cluster, at=LATER).code == "replayed_otherwise"
    assert counted(limit) == (0, 0, 0, 0)
