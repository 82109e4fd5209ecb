"""What pages are measured on: a year-old service with 300 organizations and 5,000,000 usage rows.

The few rows of a table that no page has many of are made one by one, as tests make them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from bench.billing_stage import MONTH_START, execute, meter
from bench.harness import is_smoke, scaled

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SETS: Final = 3 if is_smoke() else 10
"""Of one row of every table, each with an organization and a cluster of its own."""
ORGANIZATIONS: Final = scaled(300) - SETS
PROJECTS: Final = scaled(1_000) - 2 * SETS
PEOPLE: Final = 3 * PROJECTS
HOURS: Final = 730
USAGE_ROWS: Final = 100_000 if is_smoke() else 5_000_000
"""A smoke run counts statements and bytes: 100,000 rows are far more than a page shows."""
EXCEPTIONS: Final = scaled(2_000)
ENTRIES: Final = scaled(100_000)
DRAFTS: Final = 10
OPEN_PODS: Final = scaled(5_000)
AT: Final = MONTH_START + timedelta(days=31, hours=2)
_EXCEPTIONS: Final = """
INSERT INTO metering_meteringexception (cluster_id, window_id, window_start, kind, subject,
  namespace, summary, remedy, held_unit_seconds, details, state, created_at, resolution)
SELECT w.cluster_id, w.id, w.start_at, 'unknown_device', 'uid-' || n || '/nvidia.com/gpu',
       'ns-' || n %% 20, 'No rule sizes it.', 'Add a rule to the catalogue.', 3600,
       jsonb_build_object('pod_name', 'pod-' || n), 'open', w.start_at + interval '2 hours', ''
  FROM generate_series(1, %(count)s) n
  JOIN metering_meteringwindow w
    ON w.cluster_id = %(cluster)s AND w.start_at = %(begin)s + (n %% %(hours)s) * interval '1 hour'
"""
_ENTRIES: Final = """
INSERT INTO tenants_auditentry (occurred_at, actor_kind, actor_id, actor_label, action, object_kind,
  object_id, organization_id, facts)
SELECT %(begin)s + n * interval '20 seconds', 'person', '1', 'frank', 'quotas:limit:update',
       'quota_limit', gen_random_uuid()::text, (%(organizations)s::uuid[])[1 + n %% %(count)s],
       jsonb_build_object('changed', jsonb_build_object(
         'limit_units', jsonb_build_array(n, n + 1)))
  FROM generate_series(1, %(entries)s) n
"""
_OPEN_PODS: Final = """
INSERT INTO metering_podallocation (cluster_id, pod_uid, resource, namespace, pod_name, node,
  priority_class, controller, source, project_id, units, size, price_group, sharing_mode, product,
  share_numerator, share_denominator, catalogue_version, begin_at, end_kind,
  last_seen_at, owner)
SELECT %(cluster)s, 'open-' || n, 'nvidia_com_gpu', 'ns-' || n %% %(count)s, 'train-' || n,
       'node-' || n / 8, '', 'Job/train', 'kubernetes', (%(projects)s::uuid[])[1 + n %% %(count)s],
       1, 'large', 'H100/whole', 'whole', 'H100', 1, 1, 1, now() - interval '3 hours', 'open',
       now(), 'user' || n %% %(people)s
  FROM generate_series(1, %(pods)s) n
"""


@dataclass(frozen=True)
class Readers:
    """The callers: of the platform, of an organization, of a project."""

    frank: "User"
    alice: "User"
    bob: "User"


def make_pages_stage() -> Readers:
    """Make everything that pages show."""
    for number in range(SETS):
        _make_set(number)
    stage = _make_tenants()
    pods = USAGE_ROWS // HOURS
    meter(stage, begin=MONTH_START, hours=HOURS, pods=pods, people=PEOPLE)
    _seal_the_rest(stage)
    for statement in (_EXCEPTIONS, _ENTRIES, _OPEN_PODS):
        execute(
            statement,
            {
                **stage,
                "begin": MONTH_START,
                "hours": HOURS,
                "pods": OPEN_PODS,
                "people": PEOPLE,
                "entries": ENTRIES,
            }
            | ({"count": EXCEPTIONS} if statement == _EXCEPTIONS else {}),
        )
    _bill()
    readers = _make_readers(stage)
    execute("VACUUM ANALYZE", connection_name="owner")
    return readers


def _make_set(number: int) -> None:
    from tests.architecture.rows import make_set  # noqa: PLC0415 - Django is set up by now.

    make_set(number)


def _make_tenants() -> dict[str, Any]:
    """Make organizations of one cluster, with three or four projects each, and their limits."""
    from billing.models import PriceBookAssignment  # noqa: PLC0415 - Django is set up by now.
    from metering.services.collection.windows import ensure_partitions  # noqa: PLC0415
    from quotas.models import LimitScope, QuotaLimit  # noqa: PLC0415
    from tenants.models import NamespaceBinding, Organization, Project  # noqa: PLC0415
    from tests.support.billing.ledger import make_book, make_price  # noqa: PLC0415
    from tests.support.builders import (  # noqa: PLC0415
        make_cluster,
        new_organization,
        new_project,
    )

    cluster = make_cluster("pages")
    payers = [new_organization(f"tenant-{n}", name=f"Tenant {n}") for n in range(ORGANIZATIONS)]
    Organization.objects.bulk_create(payers)
    projects = [new_project(payers[n % len(payers)], f"project-{n}") for n in range(PROJECTS)]
    Project.objects.bulk_create(projects)
    valid = _since(MONTH_START)
    NamespaceBinding.objects.bulk_create(
        NamespaceBinding(
            cluster=cluster, namespace=f"ns-{n}", project=project, valid=valid, created_at=AT
        )
        for n, project in enumerate(projects)
    )
    book = make_book("pages")
    make_price(book, "2.50", size="large")
    PriceBookAssignment.objects.bulk_create(
        PriceBookAssignment(organization=payer, price_book=book, valid=valid, published_at=AT)
        for payer in payers
    )
    made = {"limit_units": 64, "created_at": AT, "changed_at": AT}
    QuotaLimit.objects.bulk_create(
        [
            *(
                QuotaLimit(scope=LimitScope.ORGANIZATION, organization=payer, size=size, **made)
                for payer in payers
                for size in ("small", "medium", "large")
            ),
            *(
                QuotaLimit(
                    scope=LimitScope.PROJECT,
                    organization=project.organization,
                    project=project,
                    size=size,
                    **made,
                )
                for project in projects
                for size in ("small", "medium", "large")
            ),
        ]
    )
    ensure_partitions(from_month=MONTH_START, months=2)
    return {
        "cluster": cluster.pk,
        "organizations": [project.organization_id for project in projects],
        "projects": [project.pk for project in projects],
        "count": len(projects),
    }


def _since(begin: datetime) -> Any:  # noqa: ANN401 - psycopg's range.
    from django.db.backends.postgresql.psycopg_any import DateTimeTZRange  # noqa: PLC0415

    return DateTimeTZRange(begin, None)


def _seal_the_rest(stage: dict[str, Any]) -> None:
    from tenants.models import Cluster  # noqa: PLC0415 - Django is set up by now.
    from tests.support.billing.ledger import seal_rest_of_month  # noqa: PLC0415

    seal_rest_of_month(Cluster.objects.get(pk=stage["cluster"]))


def _bill() -> None:
    """Charge everything, finalize a month, and leave what is open as it is."""
    from billing.adapters.terms import invoice_terms  # noqa: PLC0415 - Django is set up by now.
    from billing.models import Invoice  # noqa: PLC0415
    from billing.services.finalizing import finalize_invoice  # noqa: PLC0415
    from billing.services.showback import add_up_changed_days  # noqa: PLC0415
    from billing.tasks import ACTOR, accrue_pending, settle_periods  # noqa: PLC0415
    from tenants.domain.actors import Actor, ActorKind  # noqa: PLC0415

    # Drafts of the single rows have no text, of which the list prints the total.
    text = {"total": {"amount": "2.00"}}
    Invoice.objects.filter(state="draft", document={}).update(document=text)
    while accrue_pending(at=AT, actor=ACTOR)[0]:
        pass
    while add_up_changed_days():
        pass
    first, second = (Actor(ActorKind.PERSON, id=name, label=name) for name in ("a", "b"))
    settle_periods(at=AT, actor=first)
    drafts = Invoice.objects.filter(organization__slug__startswith="tenant-")
    ids = list(drafts.order_by("-organization__slug").values_list("pk", flat=True))
    for invoice_id in ids[DRAFTS:]:
        finalize_invoice(invoice_id=invoice_id, actor=second, at=AT, terms=invoice_terms())


def _make_readers(stage: dict[str, Any]) -> Readers:
    from tenants.domain.identity.roles import Role  # noqa: PLC0415 - Django is set up by now.
    from tenants.models import Organization, Project  # noqa: PLC0415
    from tests.support.builders import grant, make_user  # noqa: PLC0415

    frank = make_user("frank", is_staff=True)
    for role in (Role.PLATFORM_ADMIN, Role.FINANCE_ADMIN):
        grant(frank, role)
    alice, bob = make_user("alice"), make_user("bob")
    organization = Organization.objects.get(pk=stage["organizations"][0])
    grant(alice, Role.ORGANIZATION_ADMIN, organization=organization)
    grant(bob, Role.PROJECT_LEAD, project=Project.objects.get(pk=stage["projects"][0]))
    return Readers(frank, alice, bob)
