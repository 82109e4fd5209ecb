"""A pod that is refused elsewhere and tried again under its name counts once."""

from datetime import timedelta
from typing import Any

import pytest

from quotas.models import QuotaLimit, Reservation
from tenants.models import Cluster
from tests.support.builders import AT
from tests.support.quotas.admitting import (
    ask,
    counted,
    demand,
    drifted,
    looks_differ,
    see,
    state,
    sweep,
)

SECOND = timedelta(seconds=1)
ORDINAL: dict[str, Any] = {"pod_name": "db-0", "controller": "StatefulSet/db"}


@pytest.mark.parametrize("named", [ORDINAL, {"pod_name": "alone"}])
def test_a_newer_attempt_at_a_name_replaces_the_older(
    cluster: Cluster, limit: QuotaLimit, named: dict[str, Any]
) -> None:
    for number in range(20):
        asked = ask(cluster, "llm", f"try-{number}", demand(8), at=AT + number * SECOND, **named)
        assert asked.is_allowed

    assert counted(limit) == (0, 8, 0, 0)
    assert drifted() == []
    assert state("try-18") == ("released", "replaced")
    assert state("try-19") == ("reserved", "")


def test_another_name_controller_or_size_of_request_is_another_pod(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    ask(cluster, "llm", "first", demand(1), **ORDINAL)

    for uid, units, named in (
        ("other-name", 1, {**ORDINAL, "pod_name": "db-1"}),
        ("bare", 1, {"pod_name": "db-0"}),
        ("larger", 2, ORDINAL),
        ("prefix-1", 1, {"pod_name": "train-"}),
        ("prefix-2", 1, {"pod_name": "train-"}),
    ):
        assert ask(cluster, "llm", uid, demand(units), **named).is_allowed

    assert counted(limit) == (0, 7, 0, 0)
    assert not Reservation.objects.filter(state="released").exists()


def test_a_pod_that_was_observed_is_not_replaced(cluster: Cluster, limit: QuotaLimit) -> None:
    ask(cluster, uid="real", pod_name="alone")
    see(cluster, "real", pod_name="alone")
    sweep(AT + SECOND)

    assert ask(cluster, uid="again", pod_name="alone").is_allowed

    assert counted(limit) == (0, 2, 0, 0)
    assert state("real") == ("reserved", "")


def test_a_replaced_pod_that_appears_counts_again_and_is_no_bypass(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    ask(cluster, uid="first", pod_name="alone")
    ask(cluster, uid="second", pod_name="alone")
    see(cluster, "first", pod_name="alone")

    assert looks_differ() == []
    swept = sweep(AT + SECOND)

    assert (swept.changed, swept.found, swept.bypasses) == (1, 0, ())
    assert state("first") == ("reserved", "")
    assert counted(limit) == (0, 2, 0, 0)


def test_a_replaced_uid_that_is_asked_again_is_decided_anew(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    ask(cluster, uid="first", pod_name="alone")
    ask(cluster, uid="second", pod_name="alone")

    assert ask(cluster, uid="first", pod_name="alone").code == "allowed"

    assert (state("first"), state("second")) == (("reserved", ""), ("released", "replaced"))
    assert counted(limit) == (0, 1, 0, 0)


def test_a_refusal_and_a_dry_run_replace_nothing(cluster: Cluster, limit: QuotaLimit) -> None:
    ask(cluster, "llm", "first", demand(8), pod_name="alone")
    assert ask(cluster, "llm", "dry", demand(8), pod_name="alone", is_dry_run=True).is_allowed
    QuotaLimit.objects.update(limit_units=4)

    refused = ask(cluster, "llm", "second", demand(8), pod_name="alone")

    assert refused.blocker is not None
    assert (refused.code, refused.blocker.reserved_units, refused.blocker.asked_units) == (
        "limit_reached",
        0,
        8,
    )
    assert state("first") == ("reserved", "")
    assert counted(limit) == (0, 8, 0, 0)
