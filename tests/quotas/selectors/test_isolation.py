"""Facts of isolation come in one statement each, as admission keeps them."""

from datetime import timedelta

from pytest_django import DjangoAssertNumQueries

from quotas.domain.isolation_policy import Policy, ServingMode, WorkKind
from quotas.selectors.isolation import Tenant, isolation_policies, tenants_of_namespaces
from tests.builders import AT, bind, make_cluster
from tests.cast import Cast
from tests.quotas.builders import make_policy


def test_every_policy_is_told_in_one_statement(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    make_policy(cast.umbrella, modes=(), may_meet_tenants=True)
    make_policy(cast.acme, cast.llm, modes=("mig", "mps"), work_kind="inference")
    make_policy(cast.acme, cast.llm, default_kind="training")

    with django_assert_num_queries(1):
        found = isolation_policies()

    assert found == (
        Policy("acme", "llm", None, frozenset({ServingMode.WHOLE}), default_kind=WorkKind.TRAINING),
        Policy("acme", "llm", WorkKind.INFERENCE, frozenset({ServingMode.MIG, ServingMode.MPS})),
        Policy("umbrella", None, None, frozenset(), may_meet_tenants=True),
    )


def test_namespaces_are_told_with_whose_they_are_then(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    hopper, other = make_cluster(), make_cluster("other")
    bind(hopper, "ml", cast.llm, end_at=AT)
    bind(hopper, "ml", cast.vision, begin_at=AT)
    bind(hopper, "lab", cast.virus)
    bind(other, "elsewhere", cast.llm)

    with django_assert_num_queries(1):
        now = tenants_of_namespaces(at=AT, cluster_id=hopper.pk)

    assert now == {"ml": Tenant("acme", "vision"), "lab": Tenant("umbrella", "virus")}
    before = tenants_of_namespaces(at=AT - timedelta(hours=1), cluster_id=hopper.pk)
    assert before["ml"] == Tenant("acme", "llm")
