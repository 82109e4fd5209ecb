"""Every isolation policy comes in one statement, as admission keeps it."""

from pytest_django import DjangoAssertNumQueries

from quotas.domain.isolation.policy import Policy, ServingMode, WorkKind
from quotas.selectors.admission.facts import isolation_policies
from tests.support.cast import Cast
from tests.support.quotas.builders import make_policy


def test_every_policy_is_reported_in_one_statement(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    make_policy(cast.umbrella, modes=(), allow_shared_with_other_tenants=True)
    make_policy(cast.acme, cast.llm, modes=("mig", "mps"), work_kind="inference")
    make_policy(cast.acme, cast.llm, default_kind="training")

    with django_assert_num_queries(1):
        found = isolation_policies()

    assert found == (
        Policy("acme", "llm", None, frozenset({ServingMode.WHOLE}), default_kind=WorkKind.TRAINING),
        Policy("acme", "llm", WorkKind.INFERENCE, frozenset({ServingMode.MIG, ServingMode.MPS})),
        Policy("umbrella", None, None, frozenset(), allow_shared_with_other_tenants=True),
    )
