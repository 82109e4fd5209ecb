"""Explanations over REST: for anyone who reads the use, of nobody else's pods."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.models import PodAllocation, QueuedPod, UsageRecord
from tenants.models import Cluster
from tests.support.cast import Cast
from tests.support.metering.clients import API, ClientFor
from tests.support.metering.seen import HOUR, moment

PATH = f"{API}/pod-explanations/"


def ask(client_for: ClientFor, user: User, **question: str) -> Any:  # noqa: ANN401 - An answer of DRF's client.
    asked = {
        "cluster": str(Cluster.objects.get().pk),
        "begin_at": HOUR.isoformat(),
        "end_at": moment(3600).isoformat(),
        **question,
    }
    return client_for(user).get(PATH, asked)


def verdicts(answer: Any) -> list[str]:  # noqa: ANN401 - As above.
    assert answer.status_code == 200, answer.content
    return [hour["verdict"] for hour in answer.json()["hours"]]


def test_a_record_leads_back_to_its_evidence(cast: Cast, client_for: ClientFor) -> None:
    record = UsageRecord.objects.get(pod_uid="a")

    answer = client_for(cast.carol).get(f"{API}/usage-records/{record.pk}/explain/")

    steps = answer.json()
    assert [step["heading"] for step in steps[:3]] == ["The record", "What it held", "The hour"]
    assert steps[0]["message"] == "llm/pod-a used 7200 unit-seconds: 2 x 3600 s."
    assert steps[1]["facts"]["catalogue_version"] == 1
    assert steps[1]["facts"]["catalogue_rule_matches"] == "nvidia.com/gpu"
    assert {"query", "at", "sha256", "samples"} == set(steps[3]["facts"])


def test_a_strangers_record_is_not_explained(cast: Cast, client_for: ClientFor) -> None:
    record = UsageRecord.objects.get(pod_uid="a")

    answer = client_for(cast.mallory).get(f"{API}/usage-records/{record.pk}/explain/")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("question", "verdict"),
    [
        ({"pod_uid": "a"}, "charged"),
        ({"namespace": "llm", "pod_name": "pod-a"}, "charged"),
        ({"pod_uid": "d"}, "held_back"),
        ({"namespace": "stray", "pod_name": "pod-d"}, "held_back"),
        ({"pod_uid": "e"}, "held_back"),
        ({"pod_uid": "nobody"}, "not_seen"),
    ],
)
def test_the_platform_learns_why_a_pod_was_or_was_not_charged(
    question: dict[str, str], verdict: str, cast: Cast, client_for: ClientFor
) -> None:
    answer = ask(client_for, cast.frank, **question)

    assert verdicts(answer) == [verdict]


def test_what_is_held_back_names_its_cause_and_remedy(cast: Cast, client_for: ClientFor) -> None:
    (hour,) = ask(client_for, cast.frank, pod_uid="d").json()["hours"]

    assert hour["held_unit_seconds"] == 3600
    (step,) = hour["steps"]
    assert step["heading"] == "Unbound namespace"
    assert "Bind the namespace to a project from this hour on." in step["message"]


def test_an_hour_without_a_window_is_not_metered(cast: Cast, client_for: ClientFor) -> None:
    PodAllocation.objects.filter(pod_uid="a").update(end_at=None)

    answer = ask(
        client_for,
        cast.frank,
        pod_uid="a",
        begin_at=moment(3600).isoformat(),
        end_at=moment(3 * 3600).isoformat(),
    )

    assert verdicts(answer) == ["not_sealed", "not_metered"]


def test_a_pod_that_waited_and_one_that_was_refused_held_nothing(
    cast: Cast, client_for: ClientFor
) -> None:
    for uid, bound_at in (("waiting", None), ("refused", HOUR)):
        QueuedPod.objects.create(
            cluster=Cluster.objects.get(),
            pod_uid=uid,
            namespace="llm",
            pod_name=uid,
            created_at=HOUR,
            bound_at=bound_at,
            requests={"nvidia.com/gpu": 8},
        )

    assert verdicts(ask(client_for, cast.carol, namespace="llm", pod_name="waiting")) == [
        "never_bound"
    ]
    refused = ask(client_for, cast.carol, namespace="llm", pod_name="refused")
    assert verdicts(refused) == ["never_held"]
    assert refused.json()["steps"][0]["facts"]["asks.nvidia.com/gpu"] == 8


def test_a_tenant_asks_about_its_own_pods_only(cast: Cast, client_for: ClientFor) -> None:
    assert verdicts(ask(client_for, cast.carol, namespace="llm", pod_name="pod-a")) == ["charged"]
    assert verdicts(ask(client_for, cast.carol, namespace="llm", pod_name="typo")) == ["not_seen"]
    for question in (
        {"pod_uid": "c"},
        {"namespace": "virus", "pod_name": "pod-c"},
        {"namespace": "virus", "pod_name": "typo"},
        {"namespace": "stray", "pod_name": "pod-d"},
        {"pod_uid": "nobody"},
    ):
        answer = ask(client_for, cast.carol, **question)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), question


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({}, "pod_uid"),
        ({"namespace": "llm"}, "pod_uid"),
        ({"pod_uid": "a", "cluster": "hopper"}, "cluster"),
        ({"pod_uid": "a", "end_at": HOUR.isoformat()}, "end_at"),
        ({"pod_uid": "a", "end_at": moment(32 * 86_400).isoformat()}, "end_at"),
        ({"pod_uid": "a", "begin_at": "yesterday"}, "begin_at"),
    ],
)
def test_a_question_that_cannot_be_answered_names_its_field(
    question: dict[str, str], field: str, cast: Cast, client_for: ClientFor
) -> None:
    answer = ask(client_for, cast.frank, **question)

    assert answer.status_code == 422
    assert field in [problem["field"] for problem in answer.json()["problems"]]


def test_more_hours_ask_no_more_questions(cast: Cast, client_for: ClientFor) -> None:
    with CaptureQueriesContext(connection) as few:
        ask(client_for, cast.frank, pod_uid="a")
    with CaptureQueriesContext(connection) as many:
        ask(client_for, cast.frank, pod_uid="a", end_at=moment(30 * 86_400).isoformat())

    assert len(many) == len(few)
