"""Limits are set and taken away so that the tree of limits always holds."""

from typing import Any

import pytest

from quotas.domain.errors import (
    QuotaHierarchyBrokenError,
    QuotaInputError,
    QuotaScopeError,
)
from quotas.models import QuotaCounter, QuotaLimit
from quotas.services.limits.limits import remove_limit, set_limit
from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError, ForbiddenError, NotFoundError
from tenants.domain.identifiers import new_id
from tenants.domain.refusals import ProjectClosedError, StaleVersionError
from tenants.models import AuditEntry
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, audit_actions, make_limit

SYSTEM = system_actor("tests")


def set_project_limit(cast: Cast, units: object, **further: object) -> QuotaLimit:
    given: dict[str, Any] = {
        "scope": "project",
        "organization": cast.acme,
        "project": cast.llm,
        "size": "large",
        "limit_units": units,
        "actor": actor_of(cast.alice),
        "at": AT,
    }
    return set_limit(**{**given, **further})


def test_a_first_limit_has_generation_one_and_one_audit_entry(cast: Cast) -> None:
    limit = set_project_limit(cast, 8)

    limit.refresh_from_db()
    assert (limit.limit_units, limit.generation, limit.version) == (8, 1, 1)
    assert (limit.scope, limit.created_at, limit.changed_at) == ("project", AT, AT)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_id) == ("quotas:limit:set", str(limit.pk))
    assert entry.organization_id == cast.acme.pk
    assert entry.actor_label == "alice"
    assert entry.facts == {
        "scope": "project",
        "project": "llm",
        "user_id": None,
        "size": "large",
        "model_group": "",
        "cluster": None,
        "before_units": None,
        "after_units": 8,
        "burst_units": 0,
        "overcommit_percent": 100,
        "monthly_unit_hours": None,
        "generation": 1,
    }


def test_a_changed_limit_rises_in_generation_and_version(cast: Cast) -> None:
    set_project_limit(cast, 8)

    limit = set_project_limit(cast, 4, expected_version=1)

    limit.refresh_from_db()
    assert (limit.limit_units, limit.generation, limit.version) == (4, 2, 2)
    assert AuditEntry.objects.latest("pk").facts["before_units"] == 8


def test_setting_what_already_holds_changes_nothing(cast: Cast) -> None:
    first = set_project_limit(cast, 8)

    again = set_project_limit(cast, 8)

    assert (again.pk, again.generation, again.version) == (first.pk, 1, 1)
    assert audit_actions() == ["quotas:limit:set"]


def test_zero_is_a_limit(cast: Cast) -> None:
    assert set_project_limit(cast, 0).limit_units == 0


@pytest.mark.parametrize("units", [-1, 1_000_001, 10**400, 2.5, 8.0, "8", True])
def test_what_is_no_number_of_units_is_refused_and_nothing_is_set(
    cast: Cast, units: object
) -> None:
    with pytest.raises(QuotaInputError) as refusal:
        set_project_limit(cast, units)

    assert refusal.value.field == "limit_units"
    assert not QuotaLimit.objects.exists()
    assert audit_actions() == []


def test_a_wrong_size_and_wrong_units_are_reported_together(cast: Cast) -> None:
    with pytest.raises(QuotaInputError) as refusal:
        set_project_limit(cast, -1, size="huge")

    assert [p.field for p in refusal.value.problems] == ["size", "limit_units"]


def test_projects_never_add_up_to_more_than_their_organization(cast: Cast) -> None:
    make_limit(cast.acme, units=10)
    make_limit(cast.acme, cast.vision, units=4)

    set_project_limit(cast, 6)
    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        set_project_limit(cast, 7)

    assert [p.code for p in refusal.value.problems] == ["projects_exceed_organization"]
    assert QuotaLimit.objects.get(project=cast.llm).limit_units == 6
    assert audit_actions() == ["quotas:limit:set"]


def test_an_organization_is_not_lowered_below_its_projects_and_users(cast: Cast) -> None:
    make_limit(cast.acme, units=10)
    make_limit(cast.acme, cast.vision, units=4)
    make_limit(cast.acme, cast.llm, cast.carol, units=5)

    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        set_limit(
            scope="organization",
            organization=cast.acme,
            size="large",
            limit_units=3,
            actor=actor_of(cast.frank),
            at=AT,
        )

    assert [p.code for p in refusal.value.problems] == [
        "user_exceeds_organization",
        "project_exceeds_organization",
    ]
    assert QuotaLimit.objects.get(scope="organization").limit_units == 10


def test_a_users_limit_fits_under_the_project(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=4)

    limit = set_project_limit(cast, 4, scope="user", user=cast.carol)
    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        set_project_limit(cast, 5, scope="user", user=cast.carol)

    assert limit.scope == "user"
    assert [p.code for p in refusal.value.problems] == ["user_exceeds_project"]


def test_sizes_and_organizations_are_apart(cast: Cast) -> None:
    make_limit(cast.acme, units=1, size="small")
    make_limit(cast.umbrella, cast.virus, units=99)

    assert set_project_limit(cast, 8).limit_units == 8


@pytest.mark.parametrize(
    ("scope", "holders"),
    [
        ("project", ()),
        ("organization", ("project",)),
        ("user", ("project",)),
        ("user", ("user",)),
        ("galaxy", ("project",)),
    ],
)
def test_a_scope_that_does_not_fit_what_it_names_is_refused(
    cast: Cast, scope: str, holders: tuple[str, ...]
) -> None:
    named = {"project": cast.llm, "user": cast.carol}
    given = {name: named[name] if name in holders else None for name in named}

    with pytest.raises(QuotaScopeError) as refusal:
        set_project_limit(cast, 1, scope=scope, **given)

    assert refusal.value.field == "scope"
    assert not QuotaLimit.objects.exists()


def test_a_project_of_another_organization_is_refused(cast: Cast) -> None:
    with pytest.raises(QuotaScopeError) as refusal:
        set_project_limit(cast, 1, project=cast.virus)

    assert refusal.value.field == "project"
    assert not QuotaLimit.objects.exists()


@pytest.mark.parametrize("name", ["bob", "carol", "dora", "ann", "mallory"])
def test_who_may_not_write_limits_is_refused_and_nothing_changes(cast: Cast, name: str) -> None:
    with pytest.raises(ForbiddenError) as refusal:
        set_project_limit(cast, 8, actor=actor_of(getattr(cast, name)))

    assert refusal.value.facts == {"capability": "quotas:limit:write"}
    assert not QuotaLimit.objects.exists()


def test_an_organizations_own_limit_is_the_platforms_to_set(cast: Cast) -> None:
    organization = {"scope": "organization", "project": None}

    with pytest.raises(ForbiddenError):
        set_project_limit(cast, 8, **organization)
    limit = set_project_limit(cast, 8, **organization, actor=actor_of(cast.frank))

    assert limit.scope == "organization"


def test_a_change_from_an_older_version_is_refused(cast: Cast) -> None:
    set_project_limit(cast, 8)
    set_project_limit(cast, 9)

    with pytest.raises(StaleVersionError) as refusal:
        set_project_limit(cast, 10, expected_version=1)

    assert refusal.value.facts["version"] == 2
    assert QuotaLimit.objects.get().limit_units == 9


def test_a_closed_project_takes_no_limit(cast: Cast) -> None:
    cast.llm.state = "closed"
    cast.llm.save()

    with pytest.raises(ProjectClosedError):
        set_project_limit(cast, 8)

    assert not QuotaLimit.objects.exists()


def test_a_removed_limit_is_gone_and_reported(cast: Cast) -> None:
    limit = set_project_limit(cast, 8)

    remove_limit(limit_id=limit.pk, expected_version=1, actor=actor_of(cast.alice), at=AT)

    assert not QuotaLimit.objects.exists()
    entry = AuditEntry.objects.latest("pk")
    assert (entry.action, entry.object_id) == ("quotas:limit:remove", str(limit.pk))
    assert (entry.facts["before_units"], entry.facts["after_units"]) == (8, None)


@pytest.mark.parametrize(
    ("actor", "version", "code"),
    [("bob", 1, "forbidden"), ("mallory", 1, "forbidden"), ("alice", 2, "stale_version")],
)
def test_a_removal_that_is_refused_leaves_the_limit(
    cast: Cast, actor: str, version: int, code: str
) -> None:
    limit = set_project_limit(cast, 8)

    with pytest.raises(DomainError) as refusal:
        remove_limit(
            limit_id=limit.pk,
            expected_version=version,
            actor=actor_of(getattr(cast, actor)),
            at=AT,
        )

    assert refusal.value.code == code
    assert QuotaLimit.objects.get() == limit
    assert audit_actions() == ["quotas:limit:set"]


@pytest.mark.django_db
def test_a_limit_that_is_not_there_cannot_be_removed() -> None:
    with pytest.raises(NotFoundError):
        remove_limit(limit_id=new_id(), actor=SYSTEM, at=AT)


def test_limits_of_one_holder_are_distinguished_by_model_and_cluster(cast: Cast) -> None:
    hopper = make_cluster()
    for selector in (
        {},
        {"model_group": "H100"},
        {"cluster": hopper},
        {"model_group": "H100", "cluster": hopper},
    ):
        set_project_limit(cast, 8, **selector)
        again = set_project_limit(cast, 8, **selector)
        assert again.version == 1

    reported = set(QuotaLimit.objects.values_list("model_group", "cluster__slug"))
    assert reported == {("", None), ("H100", None), ("", "hopper"), ("H100", "hopper")}
    facts = AuditEntry.objects.latest("pk").facts
    assert (facts["model_group"], facts["cluster"]) == ("H100", "hopper")


def test_what_is_not_said_is_kept(cast: Cast) -> None:
    set_project_limit(cast, 8, burst_units=2, overcommit_percent=150, monthly_unit_hours=700)

    limit = set_project_limit(cast, 9)

    limit.refresh_from_db()
    said = (limit.burst_units, limit.overcommit_percent, limit.monthly_unit_hours)
    assert (limit.limit_units, said) == (9, (2, 150, 700))
    assert set_project_limit(cast, 9, monthly_unit_hours=None).monthly_unit_hours is None


def test_a_limit_may_be_unlimited_under_nothing_that_is_not(cast: Cast) -> None:
    top = make_limit(cast.acme, units=10)

    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        set_project_limit(cast, None)
    make_limit(cast.umbrella, units=None)
    unlimited = set_limit(
        scope="project",
        organization=cast.umbrella,
        project=cast.virus,
        size="large",
        limit_units=None,
        actor=SYSTEM,
        at=AT,
    )

    assert [p.code for p in refusal.value.problems] == ["unlimited_under_limit"]
    assert (unlimited.limit_units, top.limit_units) == (None, 10)
    facts = AuditEntry.objects.latest("pk").facts
    assert (facts["before_units"], facts["after_units"]) == (None, "unlimited")


def test_overcommit_is_not_lowered_below_what_was_promised(cast: Cast) -> None:
    make_limit(cast.acme, units=10, overcommit_percent=150)
    make_limit(cast.acme, cast.llm, units=8)
    make_limit(cast.acme, cast.vision, units=7)

    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        set_limit(
            scope="organization",
            organization=cast.acme,
            size="large",
            limit_units=10,
            overcommit_percent=140,
            actor=SYSTEM,
            at=AT,
        )

    assert refusal.value.problems[0].message.endswith("14 may be promised (140 %): 1 too many.")
    assert QuotaLimit.objects.get(scope="organization").overcommit_percent == 150


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("burst_units", -1),
        ("burst_units", None),
        ("overcommit_percent", 99),
        ("overcommit_percent", 1_001),
        ("monthly_unit_hours", 0),
        ("monthly_unit_hours", "7"),
        ("model_group", "H100/whole"),
    ],
)
def test_terms_that_cannot_be_are_refused_and_nothing_is_set(
    cast: Cast, term: str, value: object
) -> None:
    with pytest.raises(QuotaInputError) as refusal:
        set_project_limit(cast, 8, **{term: value})

    assert refusal.value.field == term
    assert not QuotaLimit.objects.exists()
    assert audit_actions() == []


def test_a_limit_comes_with_its_counter_and_goes_with_it(cast: Cast) -> None:
    limit = set_project_limit(cast, 8)
    set_project_limit(cast, 9)

    assert [counter.pk for counter in QuotaCounter.objects.all()] == [limit.pk]
    remove_limit(limit_id=limit.pk, actor=SYSTEM, at=AT)
    assert not QuotaCounter.objects.exists()


def test_a_tree_of_an_older_rule_is_mended_one_limit_at_a_time(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5)
    for person in (cast.bob, cast.carol):
        make_limit(cast.acme, cast.llm, person, units=5)

    with pytest.raises(QuotaHierarchyBrokenError):
        set_project_limit(cast, 4)
    better = set_project_limit(cast, 6)

    assert better.limit_units == 6
