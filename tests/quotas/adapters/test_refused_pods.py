"""Which workloads a cluster's events and controllers show to lack pods because of our quotas."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quotas.adapters import refused_pods
from quotas.adapters.cluster_calls import ClusterRefusalError
from quotas.adapters.refused_pods import find_refused
from quotas.domain.enforcement.refused_pods import RefusedWorkload
from tenants.domain.errors import SourceUnavailableError
from tests.quotas.adapters.test_pod_proofs import ABSENT, HOPPER, RecordedCalls

JSON = dict[str, Any]
EVENTS = "/api/v1/events?fieldSelector=reason%3DFailedCreate&limit=500"
SET = "/apis/apps/v1/namespaces/llm/replicasets/web"
JOB = "/apis/batch/v1/namespaces/llm/jobs/web"
AT = datetime(2026, 11, 2, 12, tzinfo=UTC)
GPU = "requests.nvidia.com/gpu"
LACKS = {"type": "ReplicaFailure", "status": "True"}


def refusal(quota: str = "gpu-ledger", asked: str = f"{GPU}=6") -> str:
    return (
        f'Error creating: pods "web-x" is forbidden: exceeded quota: {quota}, requested: {asked}, '
        f"used: {GPU}=0, limited: {GPU}=4"
    )


def event(message: str, *, kind: str = "ReplicaSet", uid: str = "u", minute: int = 0) -> JSON:
    about = {"kind": kind, "namespace": "llm", "name": "web", "uid": uid}
    times = {"firstTimestamp": AT.isoformat(), "lastTimestamp": later(minute).isoformat()}
    return {"metadata": {}, "involvedObject": about, "message": message, **times}


def later(minutes: int) -> datetime:
    return AT + timedelta(minutes=minutes)


def controller(*conditions: JSON, uid: str = "u", **fields: Any) -> JSON:  # noqa: ANN401 - Of a status or spec.
    names = ("replicas", "parallelism", "completions")
    spec = {name: fields.pop(name) for name in names if name in fields}
    return {
        "metadata": {"uid": uid},
        "spec": spec,
        "status": {"conditions": list(conditions), **fields.pop("status", {})},
    }


def found(events: list[JSON], since: datetime = AT, **answers: object) -> list[RefusedWorkload]:
    paths = {"set": SET, "job": JOB}
    known = {paths[name]: [answer] for name, answer in answers.items()}
    calls = RecordedCalls({EVENTS: [{"items": events}], **known})
    return list(find_refused(calls, HOPPER, since=since))


def test_a_replica_set_that_our_quota_refuses_asks_for_the_pods_it_lacks() -> None:
    lacking = controller(LACKS, replicas=3, status={"replicas": 1})

    assert found([event(refusal())], set=lacking) == [
        RefusedWorkload("llm", "ReplicaSet/web", {GPU: 6}, 2, AT)
    ]


def test_a_quota_of_preemptible_pods_is_another() -> None:
    (one,) = found([event(refusal("gpu-ledger-burst"))], set=controller(LACKS, replicas=1))

    assert one.is_burst


@pytest.mark.parametrize(
    "message",
    [
        refusal("team-quota"),
        refusal("gpu-ledger-of-others"),
        refusal(asked=f"{GPU}=0"),
        'Error creating: pods "web-x" is forbidden: by policy',
        "",
    ],
)
def test_a_refusal_by_anything_else_asks_us_for_nothing(message: str) -> None:
    assert found([event(message)]) == []


def test_the_newest_event_of_an_object_counts() -> None:
    events = [event(refusal("team-quota"), minute=2), event(refusal(), minute=1)]

    assert found(events) == []


@pytest.mark.parametrize(
    "answer",
    [
        controller(LACKS, replicas=1, status={"replicas": 1}),
        controller({**LACKS, "status": "False"}, replicas=1),
        controller(LACKS, replicas=1, uid="another"),
        ClusterRefusalError(404, ABSENT),
    ],
    ids=["complete", "no longer", "another", "gone"],
)
def test_what_lacks_no_pod_any_more_asks_for_nothing(answer: object) -> None:
    assert found([event(refusal())], set=answer) == []


@pytest.mark.parametrize(
    ("answer", "pods"),
    [
        (controller(), 1),
        (controller(parallelism=4, status={"active": 1}), 3),
        (controller(parallelism=4, completions=5, status={"active": 1, "succeeded": 3}), 1),
        (controller({"type": "Suspended", "status": "True"}, parallelism=4), None),
        (controller({"type": "Failed", "status": "True"}, parallelism=4), None),
        (controller(parallelism=1, status={"active": 1}), None),
    ],
    ids=["one", "some", "last", "suspended", "failed", "running"],
)
def test_a_job_asks_for_what_it_would_still_start(answer: JSON, pods: int | None) -> None:
    asked = found([event(refusal(), kind="Job")], job=answer)

    assert [one.pods for one in asked] == ([] if pods is None else [pods])


def test_an_old_refusal_is_left_out() -> None:
    lacking = controller(LACKS, replicas=1)

    assert len(found([event(refusal(), minute=1)], since=later(1), set=lacking)) == 1
    assert found([event(refusal(), minute=1)], since=later(2)) == []


def test_an_event_of_the_newer_kind_says_its_times_elsewhere() -> None:
    newer = event(refusal())
    newer |= {"firstTimestamp": None, "lastTimestamp": None, "eventTime": AT.isoformat()}
    newer["series"] = {"lastObservedTime": later(3).isoformat()}

    (one,) = found([newer], since=later(3), set=controller(LACKS, replicas=1))

    assert one.asked_at == AT


@pytest.mark.parametrize("answer", [ClusterRefusalError(403, {}), ClusterRefusalError(500, {})])
def test_a_cluster_that_refuses_the_reading_has_not_answered(answer: Exception) -> None:
    with pytest.raises(SourceUnavailableError):
        list(find_refused(RecordedCalls({EVENTS: [answer]}), HOPPER, since=AT))
    with pytest.raises(SourceUnavailableError):
        found([event(refusal())], set=answer)


def test_a_cluster_that_is_too_slow_keeps_no_plan_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_pods, "SECONDS_MAX", -1)

    with pytest.raises(SourceUnavailableError) as slow:
        found([event(refusal())])

    assert slow.value.reason == "timeout"
