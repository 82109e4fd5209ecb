"""A small world with something of everything the admin shows; figures are round on purpose."""

from django.contrib.auth.models import User

from billing.models import Invoice
from billing.selectors.pricing.cost_estimate import PriceBookEstimator
from billing.services.invoicing import draft_invoice
from billing.services.showback import add_up_changed_days
from metering.domain.corrections.exceptions import ExceptionKind
from metering.models import CapacityRecord, MeteringException, MeteringWindow
from quotas.models import EnforcementTarget, QuotaRequest
from tenants.domain.actors import Actor, ActorKind
from tenants.models import Cluster
from tests.support.billing.ledger import make_price, make_window
from tests.support.billing.office import Office, make_office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, audited, make_cluster
from tests.support.quotas.builders import actor_of, make_limit, submit_request

DRAFTER = Actor(kind=ActorKind.PERSON, id="999999", label="drafter")


def make_world() -> Office:
    """Return the office with a draft, a capacity, an exception and a request.

    Everybody but Carol is staff.
    """
    office = make_office()
    with audited():
        User.objects.exclude(username="carol").update(is_staff=True)
    add_up_changed_days()
    draft_invoice_of(office)
    window = make_window(make_cluster("ampere"))
    query = 'sum by (uid) (kube_pod_container_resource_requests{job="' + "kube-state-metrics" * 20
    window.evidence = [{"query": query, "sha256": "0" * 64}]
    window.save(update_fields=["evidence"])
    add_capacity(window, "small", capacity=36_000, billed=27_000, held=1_800)
    add_exception(window, ExceptionKind.UNBOUND_NAMESPACE, held=1_800)
    ask_for_units(office)
    conflict_over_quota(office, window.cluster)
    return office


def draft_invoice_of(office: Office) -> Invoice:
    """Return Acme's draft of October."""
    return draft_invoice(period_id=office.period.pk, actor=DRAFTER, at=AT, terms=SITE_TERMS)


def ask_for_units(office: Office) -> QuotaRequest:
    """Return what the lead of LLM asks for: six large units, of the eight that Acme may hold."""
    make_limit(office.cast.acme, units=8)
    make_price(office.book, "2.50", size="large", price_group="H100/whole")
    return submit_request(
        project=office.cast.llm,
        size="large",
        requested_units=6,
        justification="A bigger model.",
        estimator=PriceBookEstimator(),
        actor=actor_of(office.cast.bob),
        at=AT,
    )


def conflict_over_quota(office: Office, cluster: Cluster) -> EnforcementTarget:
    """Return a namespace with a long name, whose quota somebody else has written at length."""
    return EnforcementTarget.objects.create(
        cluster=cluster,
        namespace="reinforcement-learning-of-large-arms",
        project=office.cast.llm,
        desired_hard={"requests.nvidia.com/gpu": 8, "requests.nvidia.com/mig-1g.10gb": 4},
        live_hard={"requests.nvidia.com/gpu": 4, "requests.nvidia.com/mig-1g.10gb": 2},
        live_used={"requests.nvidia.com/gpu": 3, "requests.nvidia.com/mig-1g.10gb": 1},
        foreign_quotas={
            "quota-of-the-platform-team-that-nobody-remembers-having-written": {
                "requests.accelerators.hardware.example.com/large-training-accelerator": 4
            }
        },
        state="conflict",
        not_before=AT,
        last_error='Apply failed with 2 conflicts: conflict with "kubectl-edit" using v1: '
        ".spec.hard.requests.nvidia.com/gpu, .spec.hard.requests.nvidia.com/mig-1g.10gb",
        drifted_at=AT,
        checked_at=AT,
    )


def add_capacity(
    window: MeteringWindow, size: str, *, capacity: int, billed: int, held: int = 0
) -> CapacityRecord:
    """Return what a node offered in a window, in unit-seconds; "" is a size that nobody knows."""
    return CapacityRecord.objects.create(
        window=window,
        window_start=window.start_at,
        cluster=window.cluster,
        node=f"node-{size}",
        resource="nvidia_com_gpu",
        size=size,
        price_group="A100/1of4" if size else "",
        allocatable_units=10,
        capacity_unit_seconds=capacity,
        billed_unit_seconds=billed,
        held_unit_seconds=held,
        idle_unit_seconds=capacity - billed - held,
    )


def add_exception(
    window: MeteringWindow, kind: ExceptionKind, *, held: int, subject: str = "pod-1"
) -> MeteringException:
    """Return an open exception of a window that holds so many unit-seconds."""
    return MeteringException.objects.create(
        cluster=window.cluster,
        window=window,
        window_start=window.start_at,
        kind=kind.value,
        subject=subject,
        namespace="stray",
        summary="Namespace stray belongs to no project at that time.",
        remedy="Bind the namespace to a project for this hour, then meter the window again.",
        held_unit_seconds=held,
        created_at=AT,
    )
