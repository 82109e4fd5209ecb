"""The watch of quotas against a server that answers as reported, byte by byte."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quotas.adapters import cluster_calls
from quotas.adapters.resource_quota_watch import KubernetesQuotaWatch
from quotas.protocols import EnforcementEndpoint
from quotas.protocols.drift import QuotaEvent, QuotaVersionExpiredError
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.allocations.kubernetes import Answer, Reported, canned_api
from tests.support.references import reference_to

GPU = "requests.nvidia.com/gpu"
SELECTOR = "app.kubernetes.io/managed-by=gpu-ledger"


@pytest.fixture
def reported(tmp_path: Path) -> Iterator[Reported]:
    with canned_api(tmp_path) as made:
        yield made


def endpoint(reported: Reported) -> EnforcementEndpoint:
    return EnforcementEndpoint("hopper", "", reference_to(reported.kubeconfig))


def quota(namespace: str = "llm", *, units: str = "8", used: str = "0") -> dict[str, Any]:
    metadata = {"name": "gpu-ledger", "namespace": namespace, "resourceVersion": "7"}
    status = {"hard": {GPU: units}, "used": {GPU: used}}
    return {"metadata": metadata, "spec": {"hard": {GPU: units}}, "status": status}


def page(*items: object, version: str = "50", token: str = "") -> Answer:
    metadata = {"resourceVersion": version, "continue": token}
    document = {"kind": "ResourceQuotaList", "metadata": metadata, "items": list(items)}
    return Answer((json.dumps(document).encode(),))


def line(kind: str, obj: object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def events(reported: Reported) -> list[QuotaEvent]:
    watch = KubernetesQuotaWatch()
    return list(watch.watch_quotas(endpoint(reported), version="50", timeout_seconds=9))


def test_a_list_is_read_page_by_page_and_only_ours_are_requested(reported: Reported) -> None:
    reported.answers = [page(quota("llm"), token="next"), page(quota("vision"))]

    found = KubernetesQuotaWatch().list_quotas(endpoint(reported))

    assert (found.version, sorted(found.quotas)) == ("50", ["llm", "vision"])
    assert [query.get("continue") for _, query, _ in reported.asked] == [None, "next"]
    assert {path for path, _, _ in reported.asked} == {"/api/v1/resourcequotas"}
    assert {query["labelSelector"] for _, query, _ in reported.asked} == {SELECTOR}


def test_events_say_what_changed_and_use_changes_no_state(reported: Reported) -> None:
    bookmark = {"kind": "ResourceQuota", "metadata": {"resourceVersion": "9"}}
    reported.answers = [
        Answer(
            (
                line("ADDED", quota()),
                # One line may come in two pieces.
                line("MODIFIED", quota(used="5"))[:30],
                line("MODIFIED", quota(used="5"))[30:] + line("MODIFIED", quota(units="64")),
                line("BOOKMARK", bookmark) + line("DELETED", quota()),
            )
        )
    ]

    added, used, edited, moved, deleted = events(reported)

    assert added.key == ("llm", "gpu-ledger")
    assert added.state == used.state != edited.state
    assert (moved, deleted.state) == (QuotaEvent("9"), "")
    (asked,) = reported.asked
    assert asked[1] == {
        "labelSelector": SELECTOR,
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "50",
        "timeoutSeconds": "9",
    }


EXPIRED = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


@pytest.mark.parametrize(
    "answer",
    [Answer((json.dumps(EXPIRED).encode(),), code=410), Answer((line("ERROR", EXPIRED),))],
    ids=["response", "event"],
)
def test_a_version_that_is_too_old_has_expired(reported: Reported, answer: Answer) -> None:
    reported.answers = [answer]

    with pytest.raises(QuotaVersionExpiredError):
        events(reported)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer((b"{}",), code=403), "forbidden"),
        (Answer((b"<html>",), code=502), "server_error"),
        (Answer((b"<html>\n",)), "bad_answer"),
        (Answer((line("RENAMED", quota()),)), "bad_answer"),
        (Answer((line("ERROR", {"code": 500, "message": "etcd"}),)), "server_error"),
        (Answer((line("ADDED", quota()),), is_cut=True), "truncated"),
        (Answer((b"x" * 300,)), "bad_answer"),
    ],
)
def test_what_is_no_watch_is_unavailable(
    reported: Reported, answer: Answer, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_calls, "LINE_BYTES_MAX", 250)
    reported.answers = [answer]

    with pytest.raises(SourceUnavailableError) as refusal:
        events(reported)

    assert refusal.value.reason == reason


def test_what_is_no_list_is_unavailable(reported: Reported) -> None:
    reported.answers = [Answer((b'{"kind": "Status"}',))]

    with pytest.raises(SourceUnavailableError) as refusal:
        KubernetesQuotaWatch().list_quotas(endpoint(reported))

    assert refusal.value.reason == "bad_answer"
