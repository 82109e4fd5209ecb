"""Two organizations with a row in every list of the API, for the matrix of who reaches what.

Everything of Acme is named by words that stand nowhere else, and so is everything of Umbrella: a
word of the one in an answer to the other is a leak, wherever it stands.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import User

from billing.domain.pricing.price_draft import DraftedPrice
from billing.models import (
    AccrualException,
    BillingPeriod,
    Charge,
    PriceBook,
)
from billing.services.invoicing import draft_invoice
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.customer_classes import (
    create_customer_class,
    set_customer_class,
)
from billing.services.pricing.price_drafts import draft_prices
from billing.services.pricing.prices import set_price
from billing.services.repricing import reprice_period
from billing.services.showback import add_up_changed_days
from metering.domain.corrections.correction import CorrectionState
from metering.models import (
    ExceptionKind,
    MeteringException,
    MeteringWindow,
    UsageRecord,
)
from quotas.models import (
    EnforcementTarget,
    PreemptionPolicy,
    QuotaLimit,
    QuotaRequest,
    QuotaSuspension,
)
from tenants.domain.actors import Actor, ActorKind, system_actor
from tenants.domain.identity.roles import Role
from tenants.models import AuditEntry, Cluster, Membership, Organization, Project, ServiceAccount
from tenants.services.identity.memberships import grant_role
from tenants.services.identity.tokens import create_service_account, issue_token
from tests.support.billing.late import correct
from tests.support.billing.ledger import (
    BOUND_HOURS,
    HOUR,
    SMALL_GROUP,
    Use,
    accrue_everything,
    assign,
    make_book,
    make_price,
    make_window,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_terms
from tests.support.builders import (
    AT,
    MONTH_END,
    MONTH_START,
    bind,
    grant,
    make_cluster,
    make_invitation,
    make_user,
)
from tests.support.cast import Cast, make_cast
from tests.support.flows.asking_estate import make_asking, make_renewable
from tests.support.flows.fair_use import make_loan
from tests.support.flows.ledger_estate import ledger_rows
from tests.support.metering.derived_rows import make_derived_rows
from tests.support.metering.device_rows import make_device_usage
from tests.support.quotas.builders import (
    make_grant,
    make_limit,
    make_policy,
    make_refusal,
    make_reservation,
    see_size,
)
from tests.support.quotas.preempting import make_plan, protect

SEED = system_actor("seed")
DRAFTER = Actor(kind=ActorKind.PERSON, id="999999", label="drafter")
FAR = AT.replace(year=2100)
IN_FORCE_FROM: Final = datetime(2100, 1, 1, tzinfo=UTC)
"""Of the price and the assignment of each place that are not in force yet."""
"""When plans and windows end that are still good whenever the tests run."""
WORDS_OF_ACME: Final = ("acme", "llm", "alice", "bob", "carol", "robot")
WORDS_OF_UMBRELLA: Final = ("umbrella", "virus", "mallory", "hive")
PLACES: Final = ("own", "other", "nonexistent")
NOBODY: Final = UUID(int=0)


@dataclass(frozen=True)
class Estate:
    """The cast, the cluster both share, and what each organization has."""

    cast: Cast
    robot: ServiceAccount
    places: dict[str, dict[str, Any]]
    """By place: own is Acme's LLM, other is Umbrella's Virus, nonexistent is nobody's."""


def make_estate() -> Estate:
    """Return both organizations with a drafted October, use without a price, and quotas."""
    cast = make_cast()
    hopper = make_cluster()
    reported = ((cast.acme, cast.llm, cast.carol), (cast.umbrella, cast.virus, cast.mallory))
    for organization, project, _ in reported:
        bind(hopper, project.slug, project, end_at=MONTH_START + BOUND_HOURS * HOUR)
        book = make_book(f"book-of-{organization.slug}")
        assign(organization, book)
        make_price(book)
    first = sealed_window(hopper, [Use(p, 3600, owner=o.username) for _, p, o in reported])
    unpriced = [Use(p, 60, owner=o.username, size="large") for _, p, o in reported]
    sealed_window(hopper, unpriced, start_at=MONTH_END)
    seal_rest_of_month(hopper, hours=BOUND_HOURS)
    accrue_everything()
    add_up_changed_days()
    open_window = make_window(hopper, MONTH_END + HOUR)
    see_size(hopper, "nvidia_com_gpu", "large")
    accounts = [
        create_service_account(organization=o, slug=slug, name=slug, actor=SEED, at=AT)
        for o, slug in ((cast.acme, "robot"), (cast.umbrella, "hive"))
    ]
    grant_role(
        role=Role.ORGANIZATION_ADMIN,
        service_account=accounts[0],
        organization=cast.acme,
        actor=SEED,
        at=AT,
    )
    own, other = (
        _rows(organization, project, owner, account, windows=(first, open_window))
        for (organization, project, owner), account in zip(reported, accounts, strict=True)
    )
    return Estate(
        cast=cast,
        robot=accounts[0],
        places={"own": own, "other": other, "nonexistent": _nothing(own)},
    )


def _rows(
    organization: Organization,
    project: Project,
    owner: User,
    account: ServiceAccount,
    *,
    windows: tuple[MeteringWindow, MeteringWindow],
) -> dict[str, Any]:
    """Make what is missing of one organization, and return the keys of all it has."""
    period = BillingPeriod.objects.get(organization=organization, label="2026-10")
    drafted = draft_invoice(period_id=period.pk, actor=DRAFTER, at=AT, terms=SITE_TERMS)
    book = PriceBook.objects.get(slug=f"book-of-{organization.slug}")
    _device(windows[1], project)
    make_limit(organization, units=16)
    limit = make_limit(organization, project, units=8)
    return {
        **_rows_of_project(organization, project, owner, window=windows[0]),
        **make_asking(organization, project, owner),
        "organizations": organization.pk,
        "clusters": windows[0].cluster.pk,
        "service-accounts": account.pk,
        "api-tokens": _token(account),
        "audit-entries": AuditEntry.objects.filter(
            organization_id=organization.pk, action="billing:invoice:draft"
        )
        .get()
        .pk,
        "metering-windows": windows[1].pk,
        "catalogue-versions": 1,
        "quota-limits": limit.pk,
        "preemption-plans": make_plan(organization, expires_at=FAR).pk,
        "preemption-policies": PreemptionPolicy.objects.create(organization=organization).pk,
        "quota-loans": make_loan(organization, project),
        "price-books": book.pk,
        **_prices_to_come(organization, book),
        "billing-periods": period.pk,
        **make_terms(organization, book),
        "repricings": _repricing(period, book=book),
        "invoices": drafted.pk,
        "invoice-lines": drafted.lines.order_by("position")[0].pk,
        **ledger_rows(organization, project),
    }


def _prices_to_come(organization: Organization, book: PriceBook) -> dict[str, Any]:
    """Make a price, an assignment and a membership to come, and return their keys."""
    given: dict[str, Any] = {"valid_from": IN_FORCE_FROM, "actor": SEED, "at": AT}
    price = set_price(price_book=book, size="small", unit_price=Decimal(4), **given)
    later = assign_price_book(organization=organization, price_book=book, **given)
    customer_class = create_customer_class(
        slug=f"of-{organization.slug}", name="Own", actor=SEED, at=AT
    )
    membership = set_customer_class(
        organization=organization, customer_class=customer_class, **given
    )
    draft = draft_prices(
        price_book=book,
        prices=[DraftedPrice("medium", "*", Decimal(5))],
        reason="A new year.",
        **given,
    )
    return {
        "prices": price.pk,
        "price-book-assignments": later.pk,
        "customer-classes": customer_class.pk,
        "customer-class-memberships": membership.pk,
        "price-drafts": draft.pk,
    }


def _repricing(period: BillingPeriod, *, book: PriceBook) -> UUID:
    """Publish an exact price over a charged hour, ask for a repricing, and return its key."""
    set_price(
        price_book=book,
        size="small",
        price_group=SMALL_GROUP,
        unit_price=Decimal(3),
        valid_from=MONTH_START,
        reason="It was left out.",
        actor=SEED,
        at=AT,
    )
    return reprice_period(
        period_id=period.pk, reason="Left out.", is_four_eyes=True, actor=SEED, at=AT
    ).pk


def _rows_of_project(
    organization: Organization, project: Project, owner: User, *, window: MeteringWindow
) -> dict[str, Any]:
    """Make what is missing of one project, and return the keys of what it has by itself."""
    derived = make_derived_rows(window, project, owner=owner.username)
    return {
        "projects": project.pk,
        "memberships": Membership.objects.filter(user=owner).get().pk,
        "namespace-bindings": project.bindings.get().pk,
        "usage-records": UsageRecord.objects.filter(project=project).earliest("pk").pk,
        "usage-corrections": correct(
            window, project, 60, owner=owner.username, state=CorrectionState.PROPOSED
        ).pk,
        "waste-findings": derived.finding.pk,
        "credit-proposals": derived.credit.pk,
        "device-events": derived.event.pk,
        **_exception(project, window),
        "isolation-policies": make_policy(organization, project).pk,
        "quota-grants": _grant(organization, project),
        "suspensions": _suspension(organization, project),
        "reservations": make_reservation(window.cluster, project, namespace=project.slug).pk,
        "admission-refusals": make_refusal(window.cluster, project).pk,
        "protected-windows": protect(organization, project, end_at=FAR).pk,
        "quota-requests": _request(organization, project, owner),
        "enforcement-targets": _target(window.cluster, project),
        "charges": Charge.objects.get(project=project).pk,
        "accrual-exceptions": AccrualException.objects.get(project=project).pk,
        "user": owner.username,
        "namespace": project.slug,
    }


def add_second_project(estate: Estate) -> dict[str, Any]:
    """Give Acme's Vision rows of its own and a member, Wanda; return its keys beside Acme's."""
    acme, vision = estate.cast.acme, estate.cast.vision
    own = estate.places["own"]
    wanda = make_user("wanda")
    grant(wanda, Role.MEMBER, project=vision)
    hopper = Cluster.objects.get(pk=own["clusters"])
    bind(hopper, vision.slug, vision, end_at=MONTH_END + BOUND_HOURS * HOUR)
    uses = [Use(vision, 3600, owner="wanda"), Use(vision, 60, owner="wanda", size="large")]
    window = sealed_window(hopper, uses, start_at=MONTH_END + 2 * HOUR)
    accrue_everything()
    add_up_changed_days()
    return {
        **own,
        **_rows_of_project(acme, vision, wanda, window=window),
        "quota-limits": QuotaLimit.objects.get(project=vision, size="large").pk,
        "invitations": make_invitation(vision, wanda).pk,
        "renewable-requests": make_renewable(acme, vision, wanda).pk,
    }


def _device(window: MeteringWindow, project: Project) -> None:
    """Make what a pod's own device did in an hour that is not sealed."""
    make_device_usage(
        window,
        organization=project.organization,
        project=project,
        namespace=project.slug,
        node="node-1",
        uuid=f"GPU-{project.slug}",
        pod_uid=f"{project.slug}-pod",
        pod_name=f"{project.slug}-pod",
        resource="nvidia.com/gpu",
        size="large",
        price_group="H100/whole",
        sharing_mode="whole",
        attribution="exclusive",
        begin_at=window.start_at,
        end_at=window.start_at + timedelta(hours=1),
    )


def _nothing(own: dict[str, Any]) -> dict[str, Any]:
    """Return keys of the same kinds that nothing has."""
    return {
        noun: NOBODY if isinstance(key, UUID) else 10**9 if isinstance(key, int) else "nobody"
        for noun, key in own.items()
    }


def _token(account: ServiceAccount) -> UUID:
    issued = issue_token(
        name=f"of-{account.slug}",
        expires_at=AT + timedelta(days=1),
        service_account=account,
        actor=SEED,
        at=AT,
    )
    return issued.token.pk


def _exception(project: Project, window: MeteringWindow) -> dict[str, Any]:
    """Make an exception; return its key and that of its incident."""
    made = MeteringException.objects.create(
        cluster=window.cluster,
        window=window,
        window_start=window.start_at,
        kind=ExceptionKind.UNKNOWN_DEVICE,
        subject=f"{project.slug}/pod",
        namespace=project.slug,
        summary=f"No rule knows a device of {project.slug}.",
        remedy="Add one.",
        created_at=AT,
    )
    return {"metering-exceptions": made.pk, "incidents": made.incident}


def _grant(organization: Organization, project: Project) -> UUID:
    """Make a grant on a limit of its own: one that has any cannot be removed."""
    return make_grant(make_limit(organization, project, size="medium", units=2), 1).pk


def _suspension(organization: Organization, project: Project) -> UUID:
    made = QuotaSuspension.objects.create(
        organization=organization,
        project=project,
        reason=f"Arrears of {project.slug}.",
        begin_at=AT,
    )
    return made.pk


def _request(organization: Organization, project: Project, owner: User) -> UUID:
    made = QuotaRequest.objects.create(
        organization=organization,
        project=project,
        size="large",
        requested_units=9,
        units_before=8,
        justification=f"For {project.slug}.",
        requested_by=owner,
        created_at=AT,
    )
    return made.pk


def _target(cluster: Cluster, project: Project) -> int:
    made = EnforcementTarget.objects.create(
        cluster=cluster, namespace=project.slug, project=project, not_before=MONTH_START
    )
    return int(made.pk)
