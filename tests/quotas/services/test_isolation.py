"""Isolation policies are set, changed and taken away by anyone who may, with one entry each."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from quotas.domain.errors import IsolationPolicyExistsError, QuotaScopeError
from quotas.models import IsolationPolicy
from quotas.services.isolation import (
    change_isolation_policy,
    remove_isolation_policy,
    set_isolation_policy,
)
from tenants.domain.errors import ForbiddenError, InvalidInputError, NotFoundError
from tenants.domain.identifiers import new_id
from tenants.domain.refusals import StaleVersionError
from tenants.models import AuditEntry
from tests.support.builders import AT, MONTH_END
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, audit_actions, make_policy


def set_policy(cast: Cast, **further: object) -> IsolationPolicy:
    given: dict[str, Any] = {
        "organization": cast.acme,
        "project": cast.llm,
        "work_kind": "training",
        "modes": ["whole", "dedicated", "whole"],
        "actor": actor_of(cast.alice),
        "at": AT,
    }
    return set_isolation_policy(**{**given, **further})


def change(cast: Cast, policy: IsolationPolicy, **further: object) -> IsolationPolicy:
    given: dict[str, Any] = {
        "policy_id": policy.pk,
        "changes": {"modes": ["mig"]},
        "actor": actor_of(cast.alice),
        "at": MONTH_END,
    }
    return change_isolation_policy(**{**given, **further})


def test_a_policy_is_set_with_its_modes_in_order_and_one_entry(cast: Cast) -> None:
    policy = set_policy(cast)

    policy.refresh_from_db()
    assert (policy.modes, policy.version, policy.created_at) == (["dedicated", "whole"], 1, AT)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_id) == ("quotas:isolation:set", str(policy.pk))
    assert entry.organization_id == cast.acme.pk
    assert entry.facts == {
        "project": "llm",
        "work_kind": "training",
        "modes": ["dedicated", "whole"],
        "allow_shared_with_other_tenants": False,
        "default_kind": "",
    }


def test_there_is_one_policy_for_one_holder_and_kind(cast: Cast) -> None:
    set_policy(cast)

    with pytest.raises(IsolationPolicyExistsError) as refused:
        set_policy(cast, modes=["mig"])

    assert refused.value.field == "work_kind"
    assert IsolationPolicy.objects.get().modes == ["dedicated", "whole"]
    assert audit_actions() == ["quotas:isolation:set"]


def test_the_same_kind_may_have_a_policy_of_the_organization_and_one_of_each_project(
    cast: Cast,
) -> None:
    set_policy(cast)
    set_policy(cast, project=None)
    set_policy(cast, project=cast.vision)
    set_policy(cast, work_kind="", default_kind="inference")

    assert IsolationPolicy.objects.count() == 4


def test_a_project_of_another_organization_is_refused(cast: Cast) -> None:
    with pytest.raises(QuotaScopeError):
        set_policy(cast, project=cast.virus, actor=actor_of(cast.frank))

    assert not IsolationPolicy.objects.exists()


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("modes", {"modes": ["whole", "half"]}),
        ("work_kind", {"work_kind": "batch"}),
        ("default_kind", {"default_kind": "training"}),
        ("default_kind", {"work_kind": "", "default_kind": "batch"}),
    ],
)
def test_what_can_be_no_policy_is_refused_by_field(
    cast: Cast, field: str, wrong: dict[str, object]
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        set_policy(cast, **wrong)

    assert field in {problem.field for problem in refused.value.problems}
    assert not IsolationPolicy.objects.exists()
    assert audit_actions() == []


@pytest.mark.parametrize("name", ["bob", "carol", "dora", "ann", "mallory"])
def test_who_administers_neither_the_organization_nor_the_platform_writes_none(
    cast: Cast, name: str
) -> None:
    policy = make_policy(cast.acme, cast.llm)
    actor = actor_of(getattr(cast, name))

    with pytest.raises(ForbiddenError):
        set_policy(cast, actor=actor)
    with pytest.raises(ForbiddenError):
        change(cast, policy, actor=actor)
    with pytest.raises(ForbiddenError):
        remove_isolation_policy(policy_id=policy.pk, actor=actor, at=AT)

    policy.refresh_from_db()
    assert (policy.modes, policy.version) == (["whole"], 1)
    assert audit_actions() == []


def test_a_change_is_reported_with_old_and_new(cast: Cast) -> None:
    policy = make_policy(cast.acme, cast.llm)

    changed = change(
        cast,
        policy,
        changes={"modes": ["mps", "mig"], "allow_shared_with_other_tenants": True},
        expected_version=1,
    )

    assert (changed.modes, changed.allow_shared_with_other_tenants) == (["mig", "mps"], True)
    assert (changed.version, changed.changed_at) == (2, MONTH_END)
    assert AuditEntry.objects.get().facts == {
        "changed": {
            "modes": [["whole"], ["mig", "mps"]],
            "allow_shared_with_other_tenants": [False, True],
        }
    }


def test_a_change_to_what_holds_is_nothing(cast: Cast) -> None:
    policy = make_policy(cast.acme, cast.llm)

    change(cast, policy, changes={"modes": ["whole", "whole"]})

    policy.refresh_from_db()
    assert (policy.version, policy.changed_at) == (1, AT)
    assert audit_actions() == []


def test_a_policy_that_changed_in_the_meantime_is_neither_changed_nor_removed(cast: Cast) -> None:
    policy = make_policy(cast.acme, cast.llm, version=3)

    with pytest.raises(StaleVersionError):
        change(cast, policy, expected_version=2)
    with pytest.raises(StaleVersionError):
        remove_isolation_policy(
            policy_id=policy.pk, expected_version=2, actor=actor_of(cast.alice), at=AT
        )

    assert IsolationPolicy.objects.get().modes == ["whole"]


def test_a_wrong_change_changes_nothing(cast: Cast) -> None:
    policy = make_policy(cast.acme, cast.llm, work_kind="training")

    with pytest.raises(InvalidInputError):
        change(cast, policy, changes={"default_kind": "training"})
    with pytest.raises(ValueError, match="not editable"):
        change(cast, policy, changes={"work_kind": "inference"})

    policy.refresh_from_db()
    assert (policy.default_kind, policy.work_kind, policy.version) == ("", "training", 1)


def test_a_removed_policy_is_reported_as_it_was(cast: Cast) -> None:
    policy = make_policy(cast.acme, modes=("mig",))

    remove_isolation_policy(policy_id=policy.pk, actor=actor_of(cast.alice), at=AT)

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.facts["modes"]) == ("quotas:isolation:remove", ["mig"])
    assert not IsolationPolicy.objects.exists()


def test_a_policy_that_is_not_there_is_not_found(cast: Cast) -> None:
    with pytest.raises(NotFoundError):
        remove_isolation_policy(policy_id=new_id(), actor=actor_of(cast.frank), at=AT)


@pytest.mark.parametrize(
    "wrong",
    [
        {"modes": ("half",)},
        {"work_kind": "training", "default_kind": "training"},
    ],
)
def test_the_database_keeps_no_impossible_policy(cast: Cast, wrong: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        make_policy(cast.acme, **wrong)


def test_the_database_keeps_one_policy_of_an_organization_for_any_work(cast: Cast) -> None:
    make_policy(cast.acme)

    with pytest.raises(IntegrityError), transaction.atomic():
        make_policy(cast.acme)
