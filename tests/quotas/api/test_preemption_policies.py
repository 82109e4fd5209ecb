"""/api/v1/preemption-policies/: who may say what the service does by itself, and how."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest
import time_machine

from quotas.models import PreemptionMode, PreemptionPolicy
from quotas.services.preemption.sweep import set_policy
from tenants.models import Organization
from tenants.models.organization import LifecycleState
from tests.quotas.api.conftest import Answer, Caller
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, audit_actions

URL = "/api/v1/preemption-policies/"
READERS = {"alice", "dora", "frank", "ann"}
_KEYS = count()
Send = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _now() -> Iterator[None]:
    with time_machine.travel(AT, tick=False):
        yield


@pytest.fixture
def post(caller: Caller) -> Send:
    def send(name: str, body: object, **headers: str) -> Answer:
        given = {"Idempotency-Key": f"policy-{next(_KEYS)}", **headers}
        answer: Answer = caller(name).post(URL, body, format="json", headers=given)
        return answer

    return send


@pytest.fixture
def patch(caller: Caller) -> Send:
    def send(name: str, cast: Cast, body: object, etag: str) -> Answer:
        path = f"{URL}{cast.acme.pk}/"
        answer: Answer = caller(name).patch(path, body, format="json", headers={"If-Match": etag})
        return answer

    return send


def executing(cast: Cast) -> PreemptionPolicy:
    return set_policy(
        organization=cast.acme, mode=PreemptionMode.EXECUTE, actor=actor_of(cast.frank), at=AT
    )


def test_a_policy_is_set_listed_and_read(cast: Cast, caller: Caller, post: Send) -> None:
    made = post("frank", {"organization": str(cast.acme.pk), "mode": "execute"})

    body = {
        "organization": str(cast.acme.pk),
        "mode": "execute",
        "over_since": None,
        "version": 2,
        "changed_at": "2026-11-02T09:00:00Z",
    }
    assert (made.status_code, made.json(), made["ETag"]) == (201, body, '"2"')
    assert caller("alice").get(URL).json()["results"] == [body]
    assert caller("alice").get(URL, {"mode": "off"}).json()["results"] == []
    one = caller("ann").get(f"{URL}{cast.acme.pk}/")
    assert (one.json(), one["ETag"]) == (body, '"2"')
    assert audit_actions() == ["quotas:preemption_policy:set"]


def test_setting_again_replaces_what_was_set(cast: Cast, post: Send) -> None:
    executing(cast)

    again = post("frank", {"organization": str(cast.acme.pk), "mode": "off"})

    assert (again.status_code, again.json()["version"]) == (201, 3)
    assert PreemptionPolicy.objects.get().mode == "off"


def test_the_default_may_be_said_and_is_reported_once(cast: Cast, post: Send) -> None:
    made = post("frank", {"organization": str(cast.acme.pk), "mode": "propose"})
    again = post("frank", {"organization": str(cast.acme.pk), "mode": "propose"})

    assert (made.status_code, made.json()["version"]) == (201, 1)
    assert made.json()["changed_at"] == "2026-11-02T09:00:00Z"
    assert again.json() == made.json()
    assert audit_actions() == ["quotas:preemption_policy:set"]


def test_a_closed_organization_takes_no_policy(cast: Cast, post: Send) -> None:
    Organization.objects.filter(pk=cast.acme.pk).update(state=LifecycleState.CLOSED)

    refused = post("frank", {"organization": str(cast.acme.pk), "mode": "execute"})

    assert (refused.status_code, refused.json()["code"]) == (409, "organization_closed")
    assert not PreemptionPolicy.objects.exists()


def test_a_change_names_the_version_it_was_made_from(cast: Cast, patch: Send) -> None:
    executing(cast)

    stale = patch("frank", cast, {"mode": "off"}, '"1"')
    missing = patch("frank", cast, {"mode": "off"}, "")
    mode_then = PreemptionPolicy.objects.get().mode
    changed = patch("frank", cast, {"mode": "off"}, '"2"')

    assert [answer.status_code for answer in (stale, missing, changed)] == [412, 428, 200]
    assert (mode_then, changed.json()["mode"], changed["ETag"]) == ("execute", "off", '"3"')
    assert audit_actions() == ["quotas:preemption_policy:set"] * 2


def test_the_same_mode_at_an_old_version_is_stale_too(cast: Cast, patch: Send) -> None:
    executing(cast)

    assert patch("frank", cast, {"mode": "execute"}, '"1"').status_code == 412
    assert patch("frank", cast, {"mode": "execute"}, '"2"').status_code == 200
    assert PreemptionPolicy.objects.get().version == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"mode": "always"}, "mode"),
        ({"mode": ""}, "mode"),
        ({"mode": None}, "mode"),
        ({}, "mode"),
        ({"mode": "off", "over_since": None}, "over_since"),
    ],
)
def test_what_is_no_mode_is_refused_with_its_field_and_changes_nothing(
    cast: Cast, post: Send, patch: Send, body: dict[str, object], field: str
) -> None:
    executing(cast)

    answers = (
        post("frank", {"organization": str(cast.acme.pk), **body}),
        patch("frank", cast, body, '"2"'),
    )

    assert [answer.status_code for answer in answers] == [422, 422]
    assert {one["field"] for answer in answers for one in answer.json()["problems"]} == {field}
    assert PreemptionPolicy.objects.get().mode == "execute"


@pytest.mark.parametrize(
    ("name", "made", "changed"),
    [
        ("carol", 403, 404),
        ("bob", 403, 404),
        ("alice", 403, 403),
        ("dora", 403, 403),
        ("ann", 403, 403),
        ("mallory", 404, 404),
    ],
)
def test_only_the_platform_says_what_happens_without_a_person(
    cast: Cast, post: Send, patch: Send, name: str, made: int, changed: int
) -> None:
    executing(cast)

    answers = (
        post(name, {"organization": str(cast.acme.pk), "mode": "off"}),
        patch(name, cast, {"mode": "off"}, '"2"'),
    )

    assert tuple(answer.status_code for answer in answers) == (made, changed)
    assert PreemptionPolicy.objects.get().mode == "execute"


def test_a_policy_is_read_by_who_reads_preemption(cast: Cast, caller: Caller) -> None:
    executing(cast)

    people = ("alice", "bob", "carol", "dora", "frank", "ann", "mallory")
    lists = {name for name in people if caller(name).get(URL).json()["results"]}
    pages = {
        name for name in people if caller(name).get(f"{URL}{cast.acme.pk}/").status_code == 200
    }

    assert lists == pages == READERS


def test_an_organization_without_a_policy_has_no_page(cast: Cast, caller: Caller) -> None:
    assert caller("frank").get(f"{URL}{cast.acme.pk}/").status_code == 404
