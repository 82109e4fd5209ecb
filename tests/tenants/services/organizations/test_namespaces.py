"""Tests of binding namespaces."""

from datetime import datetime, timedelta

import pytest

from tenants.domain.actors import system_actor
from tenants.domain.errors import InvalidInputError
from tenants.domain.refusals import (
    BindingEndedError,
    ClusterClosedError,
    NamespaceBoundError,
    OrganizationClosedError,
    ProjectClosedError,
    StaleVersionError,
)
from tenants.models import AuditEntry, NamespaceBinding
from tenants.services.namespaces import bind_namespace, close_binding
from tests.support.builders import (
    AT,
    MONTH_END,
    MONTH_START,
    bind,
    make_cluster,
    make_organization,
    make_project,
    make_user,
)

pytestmark = pytest.mark.django_db
SEED = system_actor("seed")
HOUR = timedelta(hours=1)


def test_a_bound_namespace_is_audited_in_the_trail_of_its_organization() -> None:
    llm = make_project(make_organization())
    owner = make_user("carol")

    binding = bind_namespace(
        cluster=make_cluster(),
        namespace="llm-prod",
        project=llm,
        valid_from=MONTH_START,
        default_owner=owner,
        actor=SEED,
        at=AT,
    )

    stored = NamespaceBinding.objects.get(pk=binding.pk)
    assert (stored.valid.lower, stored.valid.upper) == (MONTH_START, None)
    assert stored.default_owner == owner
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.organization_id) == (
        "tenants:namespace_binding:create",
        llm.organization_id,
    )
    assert entry.facts["namespace"] == "llm-prod"


def test_every_problem_of_a_binding_is_reported_at_once() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        bind_namespace(
            cluster=make_cluster(),
            namespace="LLM_prod",
            project=make_project(make_organization()),
            valid_from=MONTH_START + timedelta(minutes=1),
            valid_until=MONTH_END + timedelta(seconds=1),
            default_owner=make_user(is_active=False),
            actor=SEED,
            at=AT,
        )

    assert [(p.field, p.code) for p in refusal.value.problems] == [
        ("namespace", "not_a_namespace"),
        ("valid_from", "not_a_whole_hour"),
        ("valid_until", "not_a_whole_hour"),
        ("default_owner", "inactive"),
    ]
    assert not NamespaceBinding.objects.exists()


@pytest.mark.parametrize("until", [MONTH_START, MONTH_START - HOUR])
def test_a_binding_holds_at_least_an_hour(until: datetime) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        bind_namespace(
            cluster=make_cluster(),
            namespace="a",
            project=make_project(make_organization()),
            valid_from=MONTH_START,
            valid_until=until,
            actor=SEED,
            at=AT,
        )

    assert refusal.value.field == "valid_until"


def test_hours_bound_already_are_refused_with_the_hour_from_which_it_works() -> None:
    llm = make_project(make_organization())
    cluster = make_cluster()
    bind(cluster, "shared", llm, begin_at=MONTH_START, end_at=MONTH_END)

    with pytest.raises(NamespaceBoundError) as refusal:
        bind_namespace(
            cluster=cluster,
            namespace="shared",
            project=llm,
            valid_from=MONTH_END - HOUR,
            actor=SEED,
            at=AT,
        )
    after = bind_namespace(
        cluster=cluster, namespace="shared", project=llm, valid_from=MONTH_END, actor=SEED, at=AT
    )

    assert refusal.value.code == "namespace_already_bound"
    assert "2026-11-01T00:00:00+00:00" in refusal.value.advice
    assert after.valid.lower == MONTH_END
    assert NamespaceBinding.objects.count() == 2


def test_a_binding_without_end_is_to_be_ended_first() -> None:
    llm = make_project(make_organization())
    cluster = make_cluster()
    bind(cluster, "shared", llm)

    with pytest.raises(NamespaceBoundError) as refusal:
        bind_namespace(
            cluster=cluster, namespace="shared", project=llm, valid_from=AT, actor=SEED, at=AT
        )

    assert refusal.value.advice.startswith("End the other binding")


def test_the_same_name_on_two_clusters_is_two_namespaces() -> None:
    llm = make_project(make_organization())
    bind(make_cluster("hopper"), "shared", llm)

    other = bind_namespace(
        cluster=make_cluster("ampere"),
        namespace="shared",
        project=llm,
        valid_from=MONTH_START,
        actor=SEED,
        at=AT,
    )

    assert other.namespace == "shared"


def test_nothing_is_bound_to_what_is_closed() -> None:
    open_project = make_project(make_organization("open"))
    closed_project = make_project(open_project.organization, "done", state="closed")
    orphan = make_project(make_organization("closed", state="closed"))
    hopper, gone = make_cluster(), make_cluster("gone", state="closed")

    for cluster, project, expected in (
        (hopper, orphan, OrganizationClosedError),
        (hopper, closed_project, ProjectClosedError),
        (gone, open_project, ClusterClosedError),
    ):
        with pytest.raises(expected):
            bind_namespace(
                cluster=cluster,
                namespace="a",
                project=project,
                valid_from=MONTH_START,
                actor=SEED,
                at=AT,
            )

    assert not NamespaceBinding.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_binding_ends_at_an_hour_and_says_so_in_the_trail() -> None:
    binding = bind(make_cluster(), "a", make_project(make_organization()))

    ended = close_binding(
        binding=binding, valid_until=AT + HOUR, expected_version=1, actor=SEED, at=AT
    )

    assert (ended.valid.upper, ended.version) == (AT + HOUR, 2)
    assert AuditEntry.objects.get().action == "tenants:namespace_binding:close"


@pytest.mark.parametrize(
    ("until", "code"),
    [
        (AT + timedelta(minutes=30), "not_a_whole_hour"),
        (AT - HOUR, "too_early"),
        (AT, "too_early"),
        (AT + 49 * HOUR, "too_late"),
    ],
)
def test_hours_already_begun_or_beyond_the_end_stay(until: datetime, code: str) -> None:
    binding = bind(make_cluster(), "a", make_project(make_organization()), end_at=AT + 48 * HOUR)

    with pytest.raises(InvalidInputError) as refusal:
        close_binding(binding=binding, valid_until=until, actor=SEED, at=AT)

    assert [p.code for p in refusal.value.problems] == [code]
    binding.refresh_from_db()
    assert (binding.valid.upper, binding.version) == (AT + 48 * HOUR, 1)


def test_a_binding_is_not_ended_at_the_begin_of_the_running_hour() -> None:
    binding = bind(make_cluster(), "a", make_project(make_organization()))
    late = AT + timedelta(minutes=50)

    with pytest.raises(InvalidInputError) as refusal:
        close_binding(binding=binding, valid_until=AT, actor=SEED, at=late)
    ended = close_binding(binding=binding, valid_until=AT + HOUR, actor=SEED, at=late)

    assert [(p.code, p.message) for p in refusal.value.problems] == [
        (
            "too_early",
            "End at 2026-11-02T10:00:00+00:00 or later: hours already begun keep their project.",
        )
    ]
    assert (ended.valid.upper, ended.version) == (AT + HOUR, 2)


def test_a_binding_that_has_not_begun_keeps_at_least_its_first_hour() -> None:
    binding = bind(make_cluster(), "a", make_project(make_organization()), begin_at=AT + 9 * HOUR)

    with pytest.raises(InvalidInputError):
        close_binding(binding=binding, valid_until=AT + 9 * HOUR, actor=SEED, at=AT)
    ended = close_binding(binding=binding, valid_until=AT + 10 * HOUR, actor=SEED, at=AT)

    assert ended.valid.upper == AT + 10 * HOUR


def test_a_binding_of_the_past_is_not_ended_again() -> None:
    binding = bind(make_cluster(), "a", make_project(make_organization()), end_at=MONTH_END)

    with pytest.raises(BindingEndedError):
        close_binding(binding=binding, valid_until=AT + HOUR, actor=SEED, at=AT)


def test_ending_a_binding_from_an_older_version_is_refused() -> None:
    binding = bind(make_cluster(), "a", make_project(make_organization()))

    with pytest.raises(StaleVersionError):
        close_binding(binding=binding, valid_until=AT + HOUR, expected_version=7, actor=SEED, at=AT)

    assert not AuditEntry.objects.exists()
