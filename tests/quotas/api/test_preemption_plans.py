"""/api/v1/preemption-plans/ and /api/v1/protected-windows/."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
import time_machine

from quotas import tasks
from quotas.models import PreemptionPlan, ProtectedWindow, QuotaLimit
from tenants.models import Cluster
from tests.quotas.api.conftest import Answer, Caller
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit
from tests.support.quotas.preempting import admit, make_plan, protect
from tests.support.quotas.preemption_steps import EVICTOR, finish, run_in

PLANS = "/api/v1/preemption-plans/"
WINDOWS = "/api/v1/protected-windows/"
_KEYS = count()
Post = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _now() -> Any:  # noqa: ANN401 - A context.
    with time_machine.travel(AT, tick=False):
        yield


@pytest.fixture
def post(caller: Caller) -> Post:
    def send(name: str, path: str, body: object = None, **headers: str) -> Answer:
        given = {"Idempotency-Key": f"preempt-{next(_KEYS)}", **headers}
        answer: Answer = caller(name).post(path, body or {}, format="json", headers=given)
        return answer

    return send


@pytest.fixture
def cluster(cast: Cast) -> Cluster:
    hopper = make_cluster("hopper")
    make_limit(cast.acme, units=1)
    pods = [
        admit(hopper, cast.llm, "train-0", controller="Job/train", units=2, age_minutes=5),
        admit(hopper, cast.vision, "old", age_minutes=600),
    ]
    run_in(EVICTOR.cluster("hopper"), *pods)
    return hopper


@pytest.mark.usefixtures("cluster")
def test_a_plan_is_shown_with_its_victims_and_does_nothing(cast: Cast, post: Post) -> None:
    answer = post("alice", PLANS, {"organization": str(cast.acme.pk)})

    body = answer.json()
    (victim,) = body["victims"]
    assert answer.status_code == 201
    assert answer["Location"] == f"{PLANS}{body['id']}/"
    assert (body["state"], body["is_dry_run"], body["planned_by"]) == ("planned", True, "alice")
    assert [one["sentence"] for one in body["overage"]] == [
        "2 large over the limit of organization acme"
    ]
    assert (victim["namespace"], victim["pod_name"], victim["step"]) == (
        "llm",
        "train-0",
        "suspend",
    )
    assert victim["units"] == {"large": 2}
    assert "began 2026-11-02 08:55 UTC" in victim["reason"]
    assert EVICTOR.cluster("hopper").asked == []


@pytest.mark.usefixtures("cluster")
def test_from_plan_to_resumed_over_rest(cast: Cast, post: Post, caller: Caller) -> None:
    path = f"{PLANS}{post('alice', PLANS, {'organization': str(cast.acme.pk)}).json()['id']}/"

    executed = post("frank", f"{path}execute/")
    live = EVICTOR.cluster("hopper")
    for minute in (5, 6):
        tasks.preempt(AT + timedelta(minutes=minute))
        finish(live, at=AT + timedelta(minutes=minute))
    done = caller("alice").get(path).json()
    QuotaLimit.objects.update(limit_units=3)
    resumed = post("frank", f"{path}resume-jobs/")

    assert (executed.status_code, executed.json()["state"]) == (200, "running")
    assert executed["ETag"] == '"2"'
    assert (done["state"], [one["state"] for one in done["victims"]]) == ("done", ["freed"])
    assert resumed.json() == {
        "results": [{"namespace": "llm", "job": "train", "is_resumed": True, "reason": ""}]
    }
    assert live.asked == [("suspend", "llm", "train"), ("resume", "llm", "train")]


@pytest.mark.usefixtures("cluster")
def test_an_organizations_admin_plans_and_does_not_execute(cast: Cast, post: Post) -> None:
    path = f"{PLANS}{post('alice', PLANS, {'organization': str(cast.acme.pk)}).json()['id']}/"

    codes = [
        post("alice", f"{path}{verb}/").status_code for verb in ("execute", "stop", "resume-jobs")
    ]

    assert codes == [403, 403, 403]
    assert PreemptionPlan.objects.get().state == "planned"


@pytest.mark.usefixtures("cluster")
def test_a_stopped_plan_stays_stopped(cast: Cast, post: Post) -> None:
    path = f"{PLANS}{post('frank', PLANS, {'organization': str(cast.acme.pk)}).json()['id']}/"

    stopped = post("frank", f"{path}stop/").json()
    refused = post("frank", f"{path}execute/")

    assert (stopped["state"], stopped["message"]) == ("stopped", "Stopped by frank.")
    assert (refused.status_code, refused.json()["code"]) == (409, "preemption_plan_ended")


def test_who_fits_is_reported_so(cast: Cast, post: Post) -> None:
    answer = post("alice", PLANS, {"organization": str(cast.acme.pk)})

    assert (answer.status_code, answer.json()["code"]) == (409, "preemption_not_needed")


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"organization": "acme"}, "organization"),
        ({"yields": [{"size": "huge", "units": 1}]}, "yields.0.size"),
        ({"yields": [{"size": "large", "units": 1.5}]}, "yields.0.units"),
        ({"yields": [{"size": "large", "units": -1}]}, "yields.0.units"),
        ({"yields": [{"size": "large", "units": 0}]}, "yields.0.units"),
        ({"yields": [{"size": "large", "units": 10**9}]}, "yields.0.units"),
        ({"force": True}, "force"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(
    cast: Cast, post: Post, fields: dict[str, object], named: str
) -> None:
    answer = post("alice", PLANS, {"organization": str(cast.acme.pk), **fields})

    assert answer.status_code in {400, 422}
    assert named in {one["field"] for one in answer.json()["problems"]}
    assert not PreemptionPlan.objects.exists()


def test_burst_yields_on_one_cluster(cast: Cast, post: Post) -> None:
    hopper = make_cluster("hopper")
    QuotaLimit.objects.filter(pk=make_limit(cast.acme).pk).update(burst_units=5)
    admit(hopper, cast.llm, "burst", is_burst=True)
    body = {
        "organization": str(cast.acme.pk),
        "yields": [{"size": "large", "units": 1, "cluster": str(hopper.pk)}],
    }

    hidden = post("alice", PLANS, body)
    answer = post("frank", PLANS, body)

    assert hidden.status_code == 404
    assert answer.json()["reason"] == "burst_yield"
    assert [one["pod_name"] for one in answer.json()["victims"]] == ["burst"]


def test_plans_are_listed_for_those_who_may_read_them(cast: Cast, caller: Caller) -> None:
    plan = make_plan(cast.acme)
    make_plan(cast.umbrella)

    seen = {
        name: len(caller(name).get(PLANS).json()["results"])
        for name in ("alice", "bob", "carol", "mallory", "ann", "dora", "frank")
    }
    filtered = caller("frank").get(f"{PLANS}?organization={cast.acme.pk}&state=planned").json()

    assert seen == {
        "alice": 1, "bob": 0, "carol": 0, "mallory": 1, "ann": 2, "dora": 2, "frank": 2,
    }  # fmt: skip
    assert [one["id"] for one in filtered["results"]] == [str(plan.pk)]
    assert "victims" not in filtered["results"][0]
    assert caller("mallory").get(f"{PLANS}{plan.pk}/").status_code == 404


def test_a_window_is_opened_listed_and_closed(cast: Cast, post: Post, caller: Caller) -> None:
    made = post(
        "frank",
        WINDOWS,
        {
            "organization": str(cast.acme.pk),
            "project": str(cast.llm.pk),
            "valid_from": "2026-11-02T08:00:00Z",
            "valid_until": "2026-11-03T08:00:00Z",
            "reason": "Release.",
        },
    )
    listed = caller("alice").get(WINDOWS).json()["results"]
    path = f"{WINDOWS}{made.json()['id']}/close/"
    stale = post("frank", path, **{"If-Match": '"7"'})
    closed = post("frank", path, **{"If-Match": made["ETag"]})

    assert made.status_code == 201
    assert made.json()["window_state"] == "in_force"
    assert listed == [made.json()]
    assert (stale.status_code, closed.status_code) == (412, 200)
    assert closed.json()["window_state"] == "over"
    assert closed.json()["valid_until"] == "2026-11-02T09:00:00Z"
    assert ProtectedWindow.objects.get().valid.upper == datetime(2026, 11, 2, 9, tzinfo=UTC)


def test_a_window_that_never_began_is_cancelled_and_keeps_its_times(cast: Cast, post: Post) -> None:
    window = protect(cast.acme, begin_at=AT + timedelta(hours=1), end_at=AT + timedelta(hours=2))

    closed = post("frank", f"{WINDOWS}{window.pk}/close/", **{"If-Match": '"1"'}).json()

    assert closed["window_state"] == "cancelled"
    assert (closed["valid_from"], closed["valid_until"]) == (
        "2026-11-02T10:00:00Z",
        "2026-11-02T11:00:00Z",
    )
    assert closed["cancelled_at"] == "2026-11-02T09:00:00Z"


@pytest.mark.parametrize(("name", "code"), [("alice", 403), ("bob", 403), ("mallory", 404)])
def test_only_the_platform_protects(cast: Cast, post: Post, name: str, code: int) -> None:
    answer = post(
        name,
        WINDOWS,
        {
            "organization": str(cast.acme.pk),
            "valid_from": "2026-11-02T08:00:00Z",
            "valid_until": "2026-11-03T08:00:00Z",
            "reason": "Release.",
        },
    )

    assert answer.status_code == code
    assert not ProtectedWindow.objects.exists()
