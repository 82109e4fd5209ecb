"""Who waits: refused for lack of room within two hours, and not let in since."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from quotas.selectors.admission.refusals import organizations_waiting, refused_lately
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.fair_use import HOUR, refuse, reserve
from tests.support.shared_rows import shared_rows


@shared_rows
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper", admission_mode="enforce", is_watched=True)
    bind(cluster, "llm", cast.llm)
    return cluster


def waiting(cast: Cast) -> list[str]:
    """Return the workloads of Acme that wait; its place among those that wait says the same."""
    refused = refused_lately(at=AT, organization_ids=[cast.acme.pk])
    found = sorted(one.workload for one in refused if one.is_waiting)
    assert (cast.acme.pk in organizations_waiting(at=AT)) is bool(found)
    return found


@pytest.mark.parametrize("code", ["limit_reached", "nothing_granted", "allowance_used"])
def test_who_lacked_room_waits(hopper: Cluster, cast: Cast, code: str) -> None:
    refuse(hopper, cast.llm, workload="Job/train", code=code)

    assert waiting(cast) == ["Job/train"]


@pytest.mark.parametrize("code", ["suspended", "closed", "demand_too_large"])
def test_who_was_refused_for_another_reason_does_not_wait(
    hopper: Cluster, cast: Cast, code: str
) -> None:
    refuse(hopper, cast.llm, workload="Job/train", code=code)

    assert waiting(cast) == []
    assert len(refused_lately(at=AT, organization_ids=[cast.acme.pk])) == 1


@pytest.mark.parametrize("state", ["reserved", "held", "released"])
def test_who_was_let_in_since_waits_no_longer(hopper: Cluster, cast: Cast, state: str) -> None:
    refuse(hopper, cast.llm, units=2, workload="Pod/w1")
    refuse(hopper, cast.llm, workload="Job/train-2")
    since: dict[str, Any] = {"admitted_at": AT - HOUR / 2, "state": state}

    reserve(hopper, cast.llm, pod_name="w1", **since)
    assert waiting(cast) == ["Job/train-2"]
    reserve(hopper, cast.llm, pod_name="train-2-x7", controller="Job/train-2", **since)
    assert waiting(cast) == []


@pytest.mark.parametrize(
    "other",
    [
        {"admitted_at": AT - HOUR},
        {"namespace": "llm-2"},
        {"controller": "Job/train-2"},
        {"controller": "", "pod_name": "train"},
    ],
)
def test_what_was_let_in_before_elsewhere_or_of_another_name_ends_no_wait(
    hopper: Cluster, cast: Cast, other: dict[str, Any]
) -> None:
    refuse(hopper, cast.llm, workload="Job/train")
    same: dict[str, Any] = {
        "admitted_at": AT - HOUR / 2,
        "controller": "Job/train",
        "pod_name": "train-x7",
    }

    reserve(hopper, cast.llm, **{**same, **other})

    assert waiting(cast) == ["Job/train"]


def test_who_was_let_in_elsewhere_still_waits_here(hopper: Cluster, cast: Cast) -> None:
    ampere = make_cluster("ampere", admission_mode="enforce", is_watched=True)
    refuse(hopper, cast.llm, workload="Job/train")
    reserve(ampere, cast.llm, controller="Job/train", admitted_at=AT)

    assert waiting(cast) == ["Job/train"]


def test_who_tried_last_two_hours_ago_has_given_up(hopper: Cluster, cast: Cast) -> None:
    refuse(hopper, cast.llm, workload="Job/train", last_at=AT - 2 * HOUR)

    assert waiting(cast) == []


def test_however_many_wait_it_is_one_statement(
    hopper: Cluster, cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(5):
        refuse(hopper, cast.llm, workload=f"Job/{number}")
        reserve(hopper, cast.llm, controller=f"Job/{number}", admitted_at=AT)

    with django_assert_num_queries(1):
        assert len(refused_lately(at=AT, organization_ids=[cast.acme.pk])) == 5
    with django_assert_num_queries(1):
        assert organizations_waiting(at=AT) == frozenset()
