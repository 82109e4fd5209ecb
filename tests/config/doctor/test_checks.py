"""All checks together: their names, the pages they lead to, and which of them are chosen."""

import ast
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.test.utils import CaptureQueriesContext

from billing.models import ExportSchedule
from config.doctor import clusters, database
from config.doctor.checks import installation_checks, select_checks, select_results
from config.doctor.findings import CheckResult, CheckState, ok
from config.management.commands.doctor import NAME_WIDTH
from metering.models import ClusterWatch, MeteringWindow
from tenants.models import NamespaceBinding
from tenants.models.organization import LifecycleState
from tests.support.builders import AT, bind, make_cluster, make_organization, make_project

ROOT = Path(__file__).resolve().parents[3]
DOCTOR = ROOT / "config" / "doctor"
PAGE = ROOT / "docs" / "how-to" / "check-an-installation.md"
NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.fixture
def names() -> list[str]:
    """Return the names of all findings of an installation with a cluster and an export."""
    make_cluster("hopper")
    make_export("erp")
    return [name for check in installation_checks(at=NOW) for name in check.names]


def make_export(slug: str, **fields: object) -> ExportSchedule:
    return ExportSchedule.objects.create(
        slug=slug,
        target="bucket",
        address="https://s3.test/ledger",
        contents=["lines"],
        secret_reference="env:EXPORT_SECRET_T",
        created_at=AT,
        **fields,
    )


def texts_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.django_db
def test_each_name_is_of_one_check_and_fits_its_column(names: list[str]) -> None:
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert max(map(len, names)) <= NAME_WIDTH


@pytest.mark.django_db
def test_the_page_explains_every_check(names: list[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_page_that_a_remedy_names_is_there() -> None:
    pages = {
        text.partition("#")[0]
        for path in DOCTOR.glob("*.py")
        for text in texts_of(path)
        if text.startswith("docs/")
    }

    assert len(pages) > 5
    assert [page for page in sorted(pages) if not (ROOT / page).is_file()] == []


@pytest.mark.django_db
def test_without_migrations_only_they_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "is_migrated", lambda: False)

    names = [name for check in installation_checks(at=NOW) for name in check.names]

    assert names == ["database", "migrations", "broker", "workers", "beat"]


@pytest.mark.django_db
def test_an_installation_without_clusters_is_a_warning() -> None:
    (check,) = select_checks(installation_checks(at=NOW), ["clusters"])
    (found,) = check.run()

    assert (found.state, found.found, found.remedy) == (
        "warning",
        "There is no active cluster: nothing is metered.",
        "Connect one.",
    )


@pytest.mark.django_db
def test_only_active_clusters_and_exports_are_checked() -> None:
    make_cluster("hopper")
    make_cluster("retired", state=LifecycleState.CLOSED, closed_at=AT)
    make_export("erp")
    make_export("former", state=LifecycleState.CLOSED)

    subjects = {check.subject for check in installation_checks(at=NOW)}

    assert subjects == {"", "hopper", "erp"}


@pytest.mark.django_db
def test_a_name_a_subject_or_both_choose_checks() -> None:
    for slug in ("hopper", "ampere"):
        make_cluster(slug)
    known = installation_checks(at=NOW)

    def chosen(*only: str) -> list[tuple[str, str]]:
        return [(check.names[0], check.subject) for check in select_checks(known, only)]

    assert len(chosen()) == len(known)
    assert chosen("retention") == [("prometheus", "ampere"), ("prometheus", "hopper")]
    assert chosen("watch:hopper", "mail") == [("watch", "hopper"), ("mail", "")]
    assert [subject for _, subject in chosen("ampere")] == ["ampere"] * 4
    assert chosen("none") == []
    assert chosen("") == []


def test_of_a_check_with_many_findings_only_the_named_one_is_shown() -> None:
    found = [
        CheckResult("prometheus", CheckState.OK, "It answers.", subject="hopper"),
        CheckResult("retention", CheckState.OK, "90 days.", subject="hopper"),
        ok("broker", "It answers."),
    ]

    assert select_results(found, []) == found
    assert select_results(found, ["retention"]) == [found[1]]
    assert select_results(found, ["hopper"]) == found[:2]
    assert select_results(found, ["broker", "prometheus:hopper"]) == [found[0], found[2]]


@pytest.mark.django_db
def test_facts_of_clusters_are_their_backlog_and_bound_namespaces() -> None:
    project = make_project(make_organization("acme"), "llm")
    hopper = make_cluster("hopper", is_watched=True)
    make_cluster("ampere")
    bind(hopper, "llm-train", project)
    bind(hopper, "llm-eval", project)
    NamespaceBinding.objects.create(
        cluster=hopper,
        namespace="ended",
        project=project,
        valid=DateTimeTZRange(AT, AT + timedelta(hours=1)),
        created_at=AT,
    )
    watch = ClusterWatch.objects.create(cluster=hopper, healthy_at=NOW)
    late = NOW - timedelta(hours=30)
    MeteringWindow.objects.create(
        cluster=hopper, start_at=late - timedelta(hours=1), not_before=late
    )

    ampere, found = clusters.active_clusters(at=NOW)

    assert (ampere.cluster.slug, ampere.namespaces, ampere.watch) == ("ampere", (), None)
    assert ampere.backlog == timedelta()
    assert found.namespaces == ("llm-eval", "llm-train")
    assert found.backlog == timedelta(hours=30)
    assert found.watch == watch


@pytest.mark.django_db
def test_facts_of_many_clusters_take_as_many_statements_as_those_of_one() -> None:
    make_cluster("hopper")
    with CaptureQueriesContext(connection) as of_one:
        clusters.active_clusters(at=NOW)
    for number in range(5):
        make_cluster(f"more-{number}")
    with CaptureQueriesContext(connection) as of_six:
        clusters.active_clusters(at=NOW)

    assert len(of_six) == len(of_one) == 4
