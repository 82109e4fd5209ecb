"""What must hold when two transactions really commit side by side."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import psycopg
import pytest
from django.db import OperationalError, connection, connections

from embedded.postgres import APP, EmbeddedPostgres
from quotas.domain.errors import QuotaHierarchyBrokenError, QuotaRequestDecidedError
from quotas.models import QuotaGrant, QuotaLimit, QuotaRequest
from quotas.services.enforcement.targets import REFRESH_LOCK, refresh_targets
from quotas.services.limits.grants import grant_units
from quotas.services.limits.limits import remove_limit, set_limit
from quotas.services.limits.suspensions import suspend_tenant
from quotas.services.requests.deciding import approve_request, cancel_request
from tenants.domain.actors import Actor, system_actor
from tenants.domain.errors import NotFoundError
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.quotas.builders import actor_of, audit_actions, make_limit, submit_request

pytestmark = pytest.mark.usefixtures("committed_db")


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Run calls in threads of their own that start together; a refusal is a result."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        barrier.wait(timeout=10)
        try:
            return call()
        except QuotaHierarchyBrokenError as error:
            return error.code
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(timeout=30) for future in [pool.submit(run, c) for c in calls]]


def approve(request: QuotaRequest, actor: Actor) -> Callable[[], object]:
    return lambda: approve_request(request_id=request.pk, actor=actor, at=AT).state


def set_units(cast: Cast, slug: str, units: int) -> Callable[[], object]:
    project = {"llm": cast.llm, "vision": cast.vision}[slug]
    return lambda: (
        set_limit(
            scope="project",
            organization=cast.acme,
            project=project,
            size="large",
            limit_units=units,
            actor=system_actor("tests"),
            at=AT,
        ).limit_units
    )


def test_two_approvals_at_once_apply_one() -> None:
    cast = make_cast()
    request = submit_request(
        project=cast.llm,
        size="large",
        requested_units=8,
        justification="A bigger model.",
        actor=actor_of(cast.bob),
        at=AT,
    )

    states = at_once(approve(request, actor_of(cast.alice)), approve(request, actor_of(cast.frank)))

    assert states == ["approved", "approved"]
    limit = QuotaLimit.objects.get()
    assert (limit.limit_units, limit.generation) == (8, 1)
    assert audit_actions() == [
        "quotas:request:submit",
        "quotas:limit:set",
        "quotas:request:approve",
    ]


@pytest.mark.parametrize("attempt", range(3))
def test_two_projects_at_once_cannot_both_take_the_last_units(attempt: int) -> None:
    cast = make_cast()
    make_limit(cast.acme, units=10)
    first, second = ("llm", "vision") if attempt % 2 else ("vision", "llm")

    results = at_once(set_units(cast, first, 6), set_units(cast, second, 6))

    assert sorted(results, key=str) == [6, "quota_hierarchy_broken"]
    assert QuotaLimit.objects.filter(scope="project").count() == 1


def test_the_organization_is_locked_before_anything_is_read_to_be_judged() -> None:
    cast = make_cast()
    statements: list[str] = []

    def note(execute, sql, params, many, context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        statements.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        set_units(cast, "llm", 6)()

    locked = [sql for sql in statements if " UPDATE OF " in sql]
    tables = [sql.split('FROM "')[1].split('"')[0] for sql in locked]
    first_read = next(i for i, sql in enumerate(statements) if 'FROM "quotas_quotalimit"' in sql)
    assert tables == ["tenants_organization", "tenants_project"]
    assert statements.index(locked[-1]) < first_read


def test_a_plan_waits_for_the_one_under_way_which_may_have_read_old_limits(
    postgres: EmbeddedPostgres, committed_db: str
) -> None:
    cast = make_cast()
    bind(make_cluster(), "llm", cast.llm)
    make_limit(cast.acme, cast.llm)

    with psycopg.connect(postgres.url(role=APP, database=committed_db)) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [REFRESH_LOCK])
        with pytest.raises(OperationalError, match="lock timeout"):
            refresh_targets(at=AT, actor=system_actor("tests"))

    assert refresh_targets(at=AT, actor=system_actor("tests")) == 1


def test_two_removals_at_once_remove_one() -> None:
    cast = make_cast()
    limit = make_limit(cast.acme, cast.llm)

    def remove() -> object:
        try:
            return remove_limit(limit_id=limit.pk, actor=system_actor("tests"), at=AT)
        except NotFoundError as error:
            return error.code

    results = at_once(remove, remove)

    assert sorted(results, key=str) == [None, "not_found"]
    assert audit_actions() == ["quotas:limit:remove"]


def test_a_request_is_approved_or_cancelled_but_never_both() -> None:
    cast = make_cast()
    request = submit_request(
        project=cast.llm,
        size="large",
        requested_units=8,
        justification="A bigger model.",
        actor=actor_of(cast.bob),
        at=AT,
    )
    bob = actor_of(cast.bob)

    def cancel() -> object:
        try:
            return cancel_request(request_id=request.pk, actor=bob, at=AT).state
        except QuotaRequestDecidedError as error:
            return error.code

    def grant_it() -> object:
        try:
            return approve(request, actor_of(cast.alice))()
        except QuotaRequestDecidedError as error:
            return error.code

    results = at_once(cancel, grant_it)

    request.refresh_from_db()
    assert sorted(results, key=str) in (
        ["approved", "quota_request_decided"],
        ["cancelled", "quota_request_decided"],
    )
    assert QuotaLimit.objects.exists() is (request.state == "approved")


@pytest.mark.parametrize("attempt", range(2))
def test_two_grants_at_once_cannot_both_take_the_last_units(attempt: int) -> None:
    cast = make_cast()
    make_limit(cast.acme, units=10)
    limits = [make_limit(cast.acme, project, units=4) for project in (cast.llm, cast.vision)]

    def give(number: int) -> Callable[[], object]:
        return lambda: (
            grant_units(
                limit_id=limits[number].pk, units=2, actor=system_actor("tests"), at=AT
            ).units
        )

    results = at_once(give(attempt), give(1 - attempt))

    assert sorted(results, key=str) == [2, "quota_hierarchy_broken"]
    assert QuotaGrant.objects.get().units == 2
    assert audit_actions() == ["quotas:grant:make"]


def test_a_grant_and_a_lower_limit_at_once_never_go_below_zero() -> None:
    cast = make_cast()
    limit = make_limit(cast.acme, cast.llm, units=8)

    def take() -> object:
        return grant_units(limit_id=limit.pk, units=-6, actor=system_actor("tests"), at=AT).units

    results = at_once(take, set_units(cast, "llm", 4))

    assert "quota_hierarchy_broken" in results
    assert len({-6, 4} & set(results)) == 1


def test_a_tenant_suspended_twice_at_once_is_suspended_once() -> None:
    cast = make_cast()

    def suspend() -> object:
        return suspend_tenant(
            organization=cast.acme, reason="Arrears.", actor=system_actor("tests"), at=AT
        ).pk

    results = at_once(suspend, suspend)

    assert len(set(results)) == 1
    assert audit_actions() == ["quotas:suspension:suspend"]


def test_two_approvals_at_once_of_units_for_a_time_make_one_grant() -> None:
    cast = make_cast()
    make_limit(cast.acme, cast.llm, units=4)
    request = submit_request(
        project=cast.llm,
        size="large",
        requested_units=8,
        justification="A bigger model.",
        end_at=AT + timedelta(days=4),
        actor=actor_of(cast.bob),
        at=AT,
    )

    states = at_once(approve(request, actor_of(cast.alice)), approve(request, actor_of(cast.frank)))

    assert states == ["approved", "approved"]
    assert [grant.units for grant in QuotaGrant.objects.all()] == [4]
    assert audit_actions().count("quotas:request:approve") == 1
