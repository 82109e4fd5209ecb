"""Usage belongs to anyone who the namespace was bound to, hour by hour."""

import itertools
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.selectors.directory import NamespaceFact, directory_of, tenant_at

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)
ORGANIZATION, FIRST, SECOND = UUID(int=1), UUID(int=2), UUID(int=3)


def binding(
    namespace: str,
    project_id: UUID,
    begin_at: datetime,
    end_at: datetime | None,
    default_owner: str = "",
) -> NamespaceFact:
    return NamespaceFact(namespace, project_id, ORGANIZATION, default_owner, begin_at, end_at)


def hours(count: int) -> datetime:
    return HOUR + timedelta(hours=count)


DIRECTORY = directory_of(
    [
        binding("team", FIRST, hours(0), hours(2), default_owner="alice"),
        binding("team", SECOND, hours(3), None),
        binding("other", SECOND, hours(0), None),
    ]
)


@pytest.mark.parametrize(
    ("moment", "project"),
    [
        (hours(0) - timedelta(seconds=1), None),
        (hours(0), FIRST),
        (hours(2) - timedelta(seconds=1), FIRST),
        (hours(2), None),
        (hours(3), SECOND),
        (hours(99_999), SECOND),
    ],
)
def test_a_binding_holds_from_its_begin_up_to_its_end(
    moment: datetime, project: UUID | None
) -> None:
    found = tenant_at(DIRECTORY, namespace="team", moment=moment)

    assert (found.project_id if found else None) == project


def test_the_tenant_names_organization_project_and_default_owner() -> None:
    found = tenant_at(DIRECTORY, namespace="team", moment=HOUR)

    assert found is not None
    assert (found.organization_id, found.project_id) == (ORGANIZATION, FIRST)
    assert found.default_owner == "alice"


def test_a_namespace_nobody_bound_belongs_to_nobody() -> None:
    assert tenant_at(DIRECTORY, namespace="stray", moment=HOUR) is None


@given(st.lists(st.integers(0, 200), min_size=2, max_size=12, unique=True), st.integers(0, 200))
def test_of_bindings_that_follow_each_other_exactly_one_holds(cuts: list[int], hour: int) -> None:
    ordered = sorted(cuts)
    bindings = [
        binding("team", UUID(int=index), hours(begin), hours(end))
        for index, (begin, end) in enumerate(itertools.pairwise(ordered))
    ]

    found = tenant_at(directory_of(bindings), namespace="team", moment=hours(hour))

    assert (found is not None) is (ordered[0] <= hour < ordered[-1])
