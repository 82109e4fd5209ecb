"""/api/v1/isolation-policies/ through HTTP."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from quotas.models import IsolationPolicy
from tenants.models import AuditEntry
from tests.quotas.api.conftest import Answer, Caller
from tests.support.cast import Cast
from tests.support.quotas.builders import make_policy

URL = "/api/v1/isolation-policies/"


def post(client: APIClient, cast: Cast, *, key: str = "key-1", **further: object) -> Answer:
    body = {
        "organization": str(cast.acme.pk),
        "project": str(cast.llm.pk),
        "work_kind": "training",
        "modes": ["whole"],
        **further,
    }
    answer: Answer = client.post(URL, body, format="json", headers={"Idempotency-Key": key})
    return answer


def problem_of(answer: Answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


def test_an_administrator_sets_a_policy_once(cast: Cast, caller: Caller) -> None:
    made, again = post(caller("alice"), cast), post(caller("alice"), cast)

    assert (made.status_code, made["ETag"]) == (201, '"1"')
    assert made.json() == again.json()
    reported = {
        name: made.json()[name] for name in ("project", "work_kind", "modes", "default_kind")
    }
    assert reported == {
        "project": str(cast.llm.pk),
        "work_kind": "training",
        "modes": ["whole"],
        "default_kind": "",
    }
    assert made.json()["allow_shared_with_other_tenants"] is False
    assert IsolationPolicy.objects.count() == AuditEntry.objects.count() == 1


def test_a_policy_of_the_organization_for_any_work_needs_neither_project_nor_kind(
    cast: Cast, caller: Caller
) -> None:
    body = {"organization": str(cast.acme.pk), "modes": [], "default_kind": "inference"}

    answer = caller("alice").post(URL, body, format="json", headers={"Idempotency-Key": "k"})

    assert answer.status_code == 201
    policy = IsolationPolicy.objects.get()
    assert (policy.project, policy.work_kind, policy.default_kind) == (None, "", "inference")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("modes", ["half"]),
        ("modes", "whole"),
        ("modes", None),
        ("work_kind", "batch"),
        ("default_kind", "batch"),
        ("allow_shared_with_other_tenants", "perhaps"),
        ("organization", "acme"),
        ("version", 3),
    ],
)
def test_what_can_be_no_policy_is_refused_by_field(
    cast: Cast, caller: Caller, field: str, value: object
) -> None:
    wrong: dict[str, Any] = {field: value}

    answer = post(caller("alice"), cast, **wrong)

    assert answer.status_code in {400, 422}
    fields = {problem["field"].split(".")[0] for problem in answer.json()["problems"]}
    assert field in fields
    assert not IsolationPolicy.objects.exists()


def test_what_another_organization_has_does_not_exist(cast: Cast, caller: Caller) -> None:
    policy = make_policy(cast.umbrella, cast.virus)

    hidden = post(caller("alice"), cast, project=str(cast.virus.pk))
    foreign = post(caller("mallory"), cast)
    read = caller("alice").get(f"{URL}{policy.pk}/")

    assert problem_of(hidden) == problem_of(foreign) == problem_of(read) == (404, "not_found")


def test_a_lead_reads_what_binds_the_project_and_changes_nothing(
    cast: Cast, caller: Caller
) -> None:
    own = make_policy(cast.acme, cast.llm)
    wide = make_policy(cast.acme)
    make_policy(cast.acme, cast.vision)
    make_policy(cast.umbrella)

    listed = caller("bob").get(URL).json()["results"]
    changed = caller("bob").patch(
        f"{URL}{own.pk}/", {"modes": []}, format="json", headers={"If-Match": '"1"'}
    )

    assert {row["id"] for row in listed} == {str(own.pk), str(wide.pk)}
    assert changed.status_code == 403
    assert set(IsolationPolicy.objects.values_list("version", flat=True)) == {1}


def test_a_policy_is_changed_and_removed_at_the_version_that_was_seen(
    cast: Cast, caller: Caller
) -> None:
    policy = make_policy(cast.acme, cast.llm)
    client, url = caller("alice"), f"{URL}{policy.pk}/"

    changed = client.patch(
        url, {"modes": ["mig", "whole"]}, format="json", headers={"If-Match": '"1"'}
    )
    stale = client.patch(url, {"modes": []}, format="json", headers={"If-Match": '"1"'})
    kept = client.delete(url, headers={"If-Match": '"1"'})
    removed = client.delete(url, headers={"If-Match": '"2"'})

    assert (changed.status_code, changed["ETag"]) == (200, '"2"')
    assert changed.json()["modes"] == ["whole", "mig"]
    assert problem_of(stale) == problem_of(kept) == (412, "stale_version")
    assert removed.status_code == 204
    assert not IsolationPolicy.objects.exists()


def test_policies_are_filtered(cast: Cast, caller: Caller) -> None:
    training = make_policy(cast.acme, cast.llm, work_kind="training")
    make_policy(cast.acme, cast.llm)
    make_policy(cast.umbrella)

    answer = caller("frank").get(URL, {"organization": str(cast.acme.pk), "work_kind": "training"})

    assert [row["id"] for row in answer.json()["results"]] == [str(training.pk)]
