"""Bindings never overlap: whatever is bound and ended in whatever order, against a naive list."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError
from tenants.models import AuditEntry, NamespaceBinding
from tenants.selectors.directory import namespace_directory
from tenants.services.namespaces import bind_namespace, close_binding
from tests.support.builders import MONTH_START, make_cluster, make_organization, make_project

SEED = system_actor("seed")
HOUR = timedelta(hours=1)
HOURS = 8
hour = st.integers(0, HOURS)
binds = st.tuples(
    st.just("bind"), st.sampled_from("ab"), st.sampled_from("xy"), hour, st.none() | hour
)
ends = st.tuples(st.just("end"), st.sampled_from("ab"), st.sampled_from("xy"), hour, st.just(0))
calls = st.lists(binds | ends, max_size=10)


@dataclass
class Span:
    """One binding, as a list on paper would have it; hours are counted from the month's first."""

    cluster: str
    namespace: str
    project: int
    begin: int
    end: int | None

    def covers(self, hour: int) -> bool:
        return self.begin <= hour and (self.end is None or hour < self.end)


def overlaps(spans: list[Span], wanted: Span) -> bool:
    """Whether an hour would be bound twice; beyond the last hour named, all hours are alike."""
    return any(
        span.covers(at) and wanted.covers(at)
        for span in spans
        if (span.cluster, span.namespace) == (wanted.cluster, wanted.namespace)
        for at in range(HOURS + 2)
    )


def is_right(spans: list[Span], wanted: Span) -> bool:
    is_range = wanted.end is None or wanted.begin < wanted.end
    return is_range and not overlaps(spans, wanted)


def is_endable(span: Span, end: int) -> bool:
    """Whether a binding can be ended at an hour, by a clock that shows the month's first hour."""
    return end > span.begin and (span.end is None or 0 < end <= span.end)


class Desk:
    """Does each call with the product and on paper, and holds one against the other."""

    def __init__(self, projects: int) -> None:
        organization = make_organization()
        self.clusters = {slug: make_cluster(f"cluster-{slug}") for slug in "ab"}
        self.projects = [make_project(organization, f"p{n}") for n in range(projects)]
        self.spans: list[Span] = []
        self.rows: list[NamespaceBinding] = []

    def bind(self, wanted: Span) -> None:
        row = self.tried(
            lambda: bind_namespace(
                cluster=self.clusters[wanted.cluster],
                namespace=wanted.namespace,
                project=self.projects[wanted.project],
                valid_from=moment(wanted.begin),
                valid_until=None if wanted.end is None else moment(wanted.end),
                actor=SEED,
                at=MONTH_START,
            ),
            is_expected=is_right(self.spans, wanted),
        )
        if row is not None:
            self.spans.append(wanted)
            self.rows.append(row)

    def end(self, cluster: str, namespace: str, hour: int) -> None:
        """End the oldest binding of a namespace; without one there is nothing to do."""
        for span, row in zip(self.spans, self.rows, strict=True):
            if (span.cluster, span.namespace) == (cluster, namespace):
                call = partial(
                    close_binding,
                    binding=row,
                    valid_until=moment(hour),
                    actor=SEED,
                    at=MONTH_START,
                )
                is_expected, is_change = is_endable(span, hour), span.end != hour
                if self.tried(call, is_expected=is_expected, is_change=is_change) is not None:
                    span.end = hour
                return

    def tried(
        self, call: Callable[[], NamespaceBinding], *, is_expected: bool, is_change: bool = True
    ) -> NamespaceBinding | None:
        """Do it; refused or not as expected, with one audit entry if it changes anything."""
        entries = AuditEntry.objects.count()
        row = None
        with suppress(DomainError), transaction.atomic():
            row = call()
        assert (row is not None) == is_expected
        assert AuditEntry.objects.count() == entries + (is_expected and is_change)
        return row

    def reported(self, cluster: str, hour: int) -> list[tuple[str, object]]:
        facts = namespace_directory(
            self.clusters[cluster].pk, begin_at=moment(hour), end_at=moment(hour + 1)
        )
        return [(fact.namespace, fact.project_id) for fact in facts]

    def on_paper(self, cluster: str, hour: int) -> list[tuple[str, object]]:
        return sorted(
            (span.namespace, self.projects[span.project].pk)
            for span in self.spans
            if span.cluster == cluster and span.covers(hour)
        )


def moment(hour: int) -> datetime:
    return MONTH_START + hour * HOUR


@pytest.mark.django_db
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(calls=calls)
def test_a_binding_is_taken_exactly_when_the_naive_list_has_room(
    calls: list[tuple[str, str, str, int, int | None]],
) -> None:
    with transaction.atomic():
        desk = Desk(len(calls))
        for number, (verb, cluster, namespace, begin, end) in enumerate(calls):
            if verb == "bind":
                desk.bind(Span(cluster, namespace, number, begin, end))
            else:
                desk.end(cluster, namespace, begin)
        for cluster in desk.clusters:
            for hour in range(HOURS + 2):
                assert desk.reported(cluster, hour) == desk.on_paper(cluster, hour)
        transaction.set_rollback(True)


@pytest.mark.django_db
def test_the_directory_shows_owner_and_range_of_what_holds_within_the_time_asked() -> None:
    cluster, organization = make_cluster(), make_organization()
    first, second = (make_project(organization, slug) for slug in ("first", "second"))
    for project, begin, end in ((first, 0, 2), (second, 2, None)):
        bind_namespace(
            cluster=cluster,
            namespace="ns",
            project=project,
            valid_from=MONTH_START + begin * HOUR,
            valid_until=None if end is None else MONTH_START + end * HOUR,
            actor=SEED,
            at=MONTH_START,
        )

    both = namespace_directory(cluster.pk, begin_at=MONTH_START, end_at=MONTH_START + 3 * HOUR)
    later = namespace_directory(
        cluster.pk, begin_at=MONTH_START + 2 * HOUR, end_at=MONTH_START + 3 * HOUR
    )

    assert [(f.project_id, f.begin_at, f.end_at) for f in both] == [
        (first.pk, MONTH_START, MONTH_START + 2 * HOUR),
        (second.pk, MONTH_START + 2 * HOUR, None),
    ]
    assert (later, later[0].organization_id) == (both[1:], organization.pk)
    assert {fact.default_owner for fact in both} == {""}
    assert (
        namespace_directory(
            make_cluster("other").pk, begin_at=MONTH_START, end_at=MONTH_START + HOUR
        )
        == ()
    )
