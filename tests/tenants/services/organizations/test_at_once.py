"""Tests of two people at once: locks let one go first, and the second sees what the first did."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import connections, transaction

from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError
from tenants.domain.identity.roles import Role
from tenants.models import (
    AuditEntry,
    Membership,
    NamespaceBinding,
    Organization,
    Project,
)
from tenants.selectors.locks import lock_rows
from tenants.services.identity.memberships import grant_role, revoke_role
from tenants.services.namespaces import bind_namespace
from tenants.services.organizations import (
    close_organization,
    create_organization,
    create_project,
    update_organization,
)
from tests.support.builders import (
    AT,
    MONTH_START,
    audit_entries,
    grant,
    make_cluster,
    make_organization,
    make_project,
    make_user,
)

pytestmark = pytest.mark.usefixtures("committed_db")
SEED = system_actor("seed")
TIMEOUT_SECONDS = 30


def at_once(*calls: Callable[[], object]) -> list[str]:
    """Return what each call came to, sorted: "done", or the code of its refusal."""
    together = threading.Barrier(len(calls), timeout=TIMEOUT_SECONDS)

    def outcome(call: Callable[[], object]) -> str:
        try:
            together.wait()
            call()
        except DomainError as error:
            return error.code
        finally:
            connections.close_all()
        return "done"

    with ThreadPoolExecutor(max_workers=len(calls)) as pool:
        pending: list[Future[str]] = [pool.submit(outcome, call) for call in calls]
        return sorted(future.result(TIMEOUT_SECONDS) for future in pending)


def test_two_platform_admins_do_not_take_each_other_away() -> None:
    held = [grant(make_user(name), Role.PLATFORM_ADMIN) for name in ("frank", "fiona")]

    answers = at_once(*(lambda m=m: revoke_role(membership=m, actor=SEED, at=AT) for m in held))

    assert answers == ["done", "last_platform_admin"]
    assert Membership.objects.count() == 1
    assert audit_entries().count() == 1


def test_two_changes_from_the_same_version_are_one_change_and_one_refusal() -> None:
    acme = make_organization()

    answers = at_once(
        *(
            lambda name=name: update_organization(
                organization=acme, changes={"name": name}, expected_version=1, actor=SEED, at=AT
            )
            for name in ("A", "B")
        )
    )

    assert answers == ["done", "stale_version"]
    assert Organization.objects.get().version == 2
    assert AuditEntry.objects.count() == 1


def test_a_slug_is_taken_by_one_of_two() -> None:
    def make() -> object:
        return create_organization(
            slug="acme", name="Acme", billing_currency="EUR", actor=SEED, at=AT
        )

    assert at_once(make, make) == ["done", "slug_taken"]
    assert Organization.objects.count() == 1
    assert AuditEntry.objects.count() == 1


def test_a_namespace_is_bound_by_one_of_two() -> None:
    acme, cluster = make_organization(), make_cluster()
    projects = [make_project(acme, slug) for slug in ("llm", "vision")]

    answers = at_once(
        *(
            lambda project=project: bind_namespace(
                cluster=cluster,
                namespace="shared",
                project=project,
                valid_from=MONTH_START,
                actor=SEED,
                at=AT,
            )
            for project in projects
        )
    )

    assert answers == ["done", "namespace_already_bound"]
    assert NamespaceBinding.objects.count() == 1


def test_an_organization_does_not_close_around_a_new_project() -> None:
    acme = make_organization()

    answers = at_once(
        lambda: close_organization(organization=acme, actor=SEED, at=AT),
        lambda: create_project(organization=acme, slug="llm", name="LLM", actor=SEED, at=AT),
    )

    acme.refresh_from_db()
    assert answers in (["done", "organization_closed"], ["done", "organization_has_open_projects"])
    assert (acme.state == "closed") == (not Project.objects.exists())


def test_duties_stay_apart_when_both_are_given_at_once() -> None:
    dora = make_user("dora")

    answers = at_once(
        *(
            lambda role=role: grant_role(role=role, user=dora, actor=SEED, at=AT)
            for role in (Role.FINANCE_ADMIN, Role.PLATFORM_ADMIN)
        )
    )

    assert answers == ["done", "duties_conflict"]
    assert Membership.objects.count() == 1


def test_a_locked_organization_still_takes_rows_that_point_at_it() -> None:
    acme = make_organization()

    with transaction.atomic():
        lock_rows(Organization.objects.all())
        answers = at_once(lambda: make_project(acme, "llm"))

    assert answers == ["done"]
