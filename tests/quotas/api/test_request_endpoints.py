"""Preview, bulk, renewal, comments and policies of requests through HTTP."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from quotas.api.requests.serializers import QuotaRequestSerializer, RequestStepSerializer
from quotas.models import QuotaGrant, QuotaLimit, QuotaRequest, RequestPolicy, RequestStep
from tests.quotas.api.conftest import Answer, Caller
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.asking import make_policy
from tests.support.quotas.builders import audit_actions, make_grant, make_limit

URL = "/api/v1/quota-requests/"
POLICIES = "/api/v1/request-policies/"


def post(client: APIClient, path: str, body: dict[str, Any], **headers: str) -> Answer:
    key = {"Idempotency-Key": str(uuid4()), **headers}
    answer: Answer = client.post(f"{URL}{path}", body, format="json", headers=key)
    return answer


def requested(cast: Cast, **further: object) -> dict[str, Any]:
    body = {"project": str(cast.llm.pk), "size": "large", "requested_units": 8}
    return {**body, "justification": "A bigger model.", **further}


def test_a_preview_is_reported_and_nothing_is_written(cast: Cast, caller: Caller) -> None:
    make_limit(cast.acme, units=4)
    body = requested(cast)
    del body["justification"]

    reported = post(caller("bob"), "preview/", body)

    assert reported.status_code == 200
    assert reported.json()["units_before"] is None
    assert reported.json()["cost"] == {
        "currency": "",
        "at_full_use": None,
        "at_last_use": None,
        "price_group": "",
        "note": "The organization has no price book today.",
    }
    assert reported.json()["decided_by"] == ["organization_admin"]
    assert [problem["field"] for problem in reported.json()["problems"]] == ["requested_units"]
    assert not QuotaRequest.objects.exists()
    assert audit_actions() == []


def test_what_held_before_and_the_most_it_comes_to_are_reported(cast: Cast, caller: Caller) -> None:
    limit = make_limit(cast.acme, cast.llm, units=4, burst_units=3)
    make_grant(limit, 2, begin_at=timezone.now() + timedelta(days=1))
    before = {"units_before": 4, "burst_before": 3, "is_unlimited_before": False, "peak_units": 10}

    preview = post(caller("bob"), "preview/", requested(cast)).json()
    asked = post(caller("bob"), "", requested(cast)).json()
    QuotaLimit.objects.update(limit_units=None)
    unlimited = post(caller("bob"), "", requested(cast)).json()
    unset = post(caller("bob"), "preview/", requested(cast, size="small")).json()

    assert {name: preview[name] for name in before} == before
    assert {name: asked[name] for name in before} == before
    assert (unlimited["units_before"], unlimited["is_unlimited_before"]) == (None, True)
    assert [unset[name] for name in before] == [None, None, False, 8]
    assert [step["position"] for step in asked["steps"]] == [0]


def test_every_column_of_a_request_and_its_steps_is_reported() -> None:
    columns = {field.name for field in QuotaRequest._meta.fields}  # noqa: SLF001 - Model meta.
    steps = {field.name for field in RequestStep._meta.fields}  # noqa: SLF001 - As above.

    assert set(QuotaRequestSerializer().fields) == columns | {"steps", "comments"}
    assert set(RequestStepSerializer().fields) == steps - {"id", "request"}


def test_everything_a_request_can_name_comes_back(cast: Cast, caller: Caller) -> None:
    hopper = make_cluster("hopper")
    bind(hopper, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=4)
    end_at = (timezone.now() + timedelta(days=3)).isoformat()

    asked = post(
        caller("bob"), "", requested(cast, user="carol", model_group="H100", cluster="hopper")
    ).json()
    dated = post(caller("bob"), "", requested(cast, end_at=end_at)).json()
    replaced = post(caller("bob"), "", requested(cast, supersedes=dated["id"])).json()

    assert (asked["user"], asked["model_group"], asked["cluster"]) == ("carol", "H100", "hopper")
    assert [(step["level"], step["outcome"]) for step in asked["steps"]] == [
        ("organization_admin", "open")
    ]
    assert (dated["units_before"], dated["end_at"] is None) == (4, False)
    assert replaced["supersedes"] == dated["id"]
    assert QuotaRequest.objects.get(pk=dated["id"]).state == "cancelled"


@pytest.mark.parametrize(
    ("further", "status", "field"),
    [
        ({"user": "mallory"}, 404, "user"),
        ({"cluster": "nowhere"}, 404, "cluster"),
        ({"supersedes": str(uuid4())}, 404, ""),
        ({"end_at": "2020-01-01T00:00:00Z"}, 422, "end_at"),
        ({"begin_at": "tomorrow"}, 422, "begin_at"),
        ({"requested_units": "8"}, 422, "requested_units"),
        ({"requested_units": 10**30}, 422, "requested_units"),
        ({"requested_units": 1.5}, 422, "requested_units"),
        ({"units": 3}, 422, "units"),
    ],
)
def test_bad_input_is_refused_with_its_field_and_nothing_is_made(
    cast: Cast, caller: Caller, further: dict[str, object], status: int, field: str
) -> None:
    answer = post(caller("bob"), "", requested(cast, **further))

    reported = answer.json()
    fields = [problem["field"] for problem in reported.get("problems", [])] or [
        reported.get("field", "")
    ]
    assert answer.status_code == status
    assert fields == [field]
    assert not QuotaRequest.objects.exists()


def test_a_bulk_is_made_whole_or_not_at_all(cast: Cast, caller: Caller) -> None:
    good, bad = requested(cast), requested(cast, end_at="2020-01-01T00:00:00Z")

    refused = post(caller("bob"), "bulk/", {"requests": [good, bad]})
    made = post(caller("bob"), "bulk/", {"requests": [good, requested(cast, size="small")]})

    assert (refused.status_code, refused.json()["code"]) == (422, "quota_bulk_refused")
    assert [p["field"] for p in refused.json()["problems"]] == ["requests.1.end_at"]
    assert made.status_code == 201
    assert [row["size"] for row in made.json()] == ["large", "small"]
    assert QuotaRequest.objects.count() == 2


def test_a_key_used_for_another_body_makes_nothing(cast: Cast, caller: Caller) -> None:
    key = {"Idempotency-Key": "once"}
    first = post(caller("bob"), "bulk/", {"requests": [requested(cast)]}, **key)
    other = post(caller("bob"), "bulk/", {"requests": [requested(cast, size="small")]}, **key)
    again = post(caller("bob"), "bulk/", {"requests": [requested(cast)]}, **key)

    assert (first.status_code, other.status_code, again.status_code) == (201, 422, 201)
    assert other.json()["code"] == "idempotency_key_reused"
    assert QuotaRequest.objects.count() == 1


def test_comments_are_read_by_everybody_who_reads_the_request(cast: Cast, caller: Caller) -> None:
    pk = post(caller("bob"), "", requested(cast)).json()["id"]

    said = post(caller("alice"), f"{pk}/comments/", {"text": "How long?"})
    refused = post(caller("carol"), f"{pk}/comments/", {"text": "Me too."})
    unseen = post(caller("mallory"), f"{pk}/comments/", {"text": "Hi."})

    assert (said.status_code, refused.status_code, unseen.status_code) == (201, 403, 404)
    seen = caller("carol").get(f"{URL}{pk}/").json()["comments"]
    assert [(one["author"], one["text"]) for one in seen] == [("alice", "How long?")]


def test_a_grant_is_renewed_where_it_ends(cast: Cast, caller: Caller) -> None:
    make_limit(cast.acme, cast.llm, units=4)
    soon, later = (timezone.now() + timedelta(days=days) for days in (3, 9))
    pk = post(caller("bob"), "", requested(cast, end_at=soon.isoformat())).json()["id"]
    early = post(caller("bob"), "renew/", {"renews": pk, "end_at": None, "justification": "x"})
    post(caller("alice"), f"{pk}/approve/", {})

    renewal = {
        "renews": pk,
        "end_at": later.isoformat(),
        "justification": "The review took longer.",
    }
    renewed = post(caller("bob"), "renew/", renewal)
    post(caller("alice"), f"{renewed.json()['id']}/approve/", {})

    assert (early.status_code, early.json()["code"]) == (409, "quota_request_not_renewable")
    assert (renewed.status_code, renewed.json()["renews"]) == (201, pk)
    spans = [(grant.units, grant.valid.upper) for grant in QuotaGrant.objects.order_by("pk")]
    assert spans == [(4, soon), (4, later)]


def test_finance_decides_its_step_over_rest(cast: Cast, caller: Caller) -> None:
    make_policy(steps=[{"level": "organization_admin"}, {"level": "finance"}])
    pk = post(caller("bob"), "", requested(cast)).json()["id"]

    too_soon = post(caller("dora"), f"{pk}/approve/", {})
    first = post(caller("alice"), f"{pk}/approve/", {})
    last = post(caller("dora"), f"{pk}/approve/", {})

    assert (too_soon.status_code, first.json()["state"]) == (403, "submitted")
    assert (last.json()["state"], last.json()["decided_by"]) == ("approved", "dora")
    assert QuotaLimit.objects.get().limit_units == 8


def test_the_platform_says_who_decides(cast: Cast, caller: Caller) -> None:
    body = {"organization": str(cast.acme.pk), "steps": [{"level": "platform"}]}
    key = {"Idempotency-Key": str(uuid4())}

    refused = caller("alice").post(POLICIES, body, format="json", headers=key)
    wrong = caller("frank").post(
        POLICIES, {**body, "steps": [{"level": "boss"}]}, format="json", headers=key
    )
    made = caller("frank").post(POLICIES, body, format="json", headers=key)
    path = f"{POLICIES}{made.json()['id']}/"
    stale = caller("frank").patch(
        path, {"remind_days": 3}, format="json", headers={"If-Match": '"9"'}
    )
    changed = caller("frank").patch(
        path, {"remind_days": 3}, format="json", headers={"If-Match": '"1"'}
    )

    assert [a.status_code for a in (refused, wrong, made, stale, changed)] == [
        403,
        422,
        201,
        412,
        200,
    ]
    assert wrong.json()["problems"][0]["field"] == "steps.0.level"
    assert (changed.json()["remind_days"], changed.json()["version"]) == (3, 2)
    assert caller("bob").get(path).status_code == 200
    assert caller("mallory").get(path).status_code == 404
    assert RequestPolicy.objects.get().remind_days == 3
