"""Everything the demo's world needs in the database, made through the services, once.

Each step looks first whether its rows are there, so that a demo that was cut off goes on.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.db import transaction

from billing.models import Price, PriceBook, PriceBookAssignment
from billing.services.pricing.assignments import assign_price_book
from billing.services.pricing.prices import create_price_book, set_price
from metering.domain.catalogue.units import sanitise
from simulator.cluster.demo_tenancy import ORGANIZATIONS
from simulator.cluster.scenario import (
    USER_LABEL,
    Scenario,
)
from simulator.cluster.tenancy import OrganizationPlan, PersonPlan, PlannedBook, PlannedPrice
from simulator.demo.limit_seeding import seed_limits
from simulator.demo.plan import (
    AUDITOR,
    FINANCE_ADMIN,
    FINANCE_REVIEWER,
    LIMITS,
    PLATFORM_ADMIN,
    PLATFORM_REVIEWER,
    PRICE_BOOKS,
)
from simulator.sandbox.plan import TAILSPIN
from tenants.domain.actors import Actor, system_actor
from tenants.domain.identity.roles import Role
from tenants.models import Cluster, Membership, NamespaceBinding, Organization, Project
from tenants.services.clusters import register_cluster, update_cluster
from tenants.services.identity.memberships import grant_role
from tenants.services.identity.people import note_user_saved
from tenants.services.namespaces import bind_namespace
from tenants.services.organizations import create_organization, create_project

PLATFORM_PEOPLE = (
    (PLATFORM_ADMIN, "Frank Okafor", Role.PLATFORM_ADMIN),
    (PLATFORM_REVIEWER, "Gwen Adeyemi", Role.PLATFORM_ADMIN),
    (FINANCE_ADMIN, "Dora Lindqvist", Role.FINANCE_ADMIN),
    (FINANCE_REVIEWER, "Emil Novak", Role.FINANCE_ADMIN),
    (AUDITOR, "Ann Moreau", Role.AUDITOR),
)


@dataclass(frozen=True)
class Endpoints:
    """Where one simulated cluster can be reached."""

    prometheus_url: str
    kubernetes_url: str
    credential_reference: str


def seed(  # noqa: PLR0913 - What a world is made of; all but the first are keyword only.
    scenario: Scenario,
    *,
    metered_from: datetime,
    year: int,
    month: int,
    endpoints: Mapping[str, Endpoints],
    password: str,
    at: datetime,
    books: Iterable[PlannedBook] = PRICE_BOOKS,
    watched: Collection[str] = (),
) -> None:
    """Create missing people, organizations, clusters, bindings, prices and limits.

    Args:
        scenario: The world to be metered.
        metered_from: First UTC hour that is metered.
        year: Of the demo's month, for prices that begin on a day of it.
        month: 1 to 12.
        endpoints: By cluster; kept up to date, because ports change from start to start.
        password: What every demo person signs in with.
        at: Now.
        books: Prices, at most one book a currency.
        watched: Clusters with an allocation ledger from the Kubernetes API.
    """
    actor = system_actor("demo.seed")
    _seed_platform_people(password, actor=actor, at=at)
    for plan in scenario.organizations:
        seed_organization(plan, password, actor=actor, at=at)
    _seed_clusters(
        scenario, endpoints, watched=watched, metered_from=metered_from, actor=actor, at=at
    )
    _seed_bindings(scenario, metered_from=metered_from, actor=actor, at=at)
    for book in books:
        _seed_prices(book, metered_from=metered_from, year=year, month=month, actor=actor, at=at)
    seed_limits(LIMITS, actor=actor, at=at)


def _person(
    username: str, full_name: str, password: str, *, is_staff: bool, actor: Actor, at: datetime
) -> User:
    found = User.objects.filter(username=username).first()
    if found is not None:
        return found
    first_name, _, last_name = full_name.partition(" ")
    with transaction.atomic():
        user = User.objects.create(
            username=username,
            email=f"{username}@demo.example",
            is_staff=is_staff,
            first_name=first_name,
            last_name=last_name,
            password=_hash_of(password),
        )
        note_user_saved(user=user, verb="create", actor=actor, at=at)
    return user


@cache
def _hash_of(password: str) -> str:
    """Return one hash for everybody: they share the password, and each hash takes half a second."""
    return make_password(password)


def _seed_platform_people(password: str, *, actor: Actor, at: datetime) -> None:
    for username, name, role in PLATFORM_PEOPLE:
        user = _person(username, name, password, is_staff=True, actor=actor, at=at)
        if not Membership.objects.filter(user=user).exists():
            grant_role(role=role, user=user, actor=actor, at=at)
            _set_password(user, password, actor=actor, at=at)


def _set_password(user: User, password: str, *, actor: Actor, at: datetime) -> None:
    """Set the password again, which a role of the platform ends."""
    with transaction.atomic():
        User.objects.filter(pk=user.pk).update(password=_hash_of(password))
        note_user_saved(user=user, verb="password", actor=actor, at=at)


def seed_organization(plan: OrganizationPlan, password: str, *, actor: Actor, at: datetime) -> None:
    """Make one organization, its projects and its people, as far as missing."""
    organization = Organization.objects.filter(slug=plan.slug).first()
    if organization is None:
        organization = create_organization(
            slug=plan.slug,
            name=plan.name,
            billing_currency=plan.billing_currency,
            time_zone=plan.time_zone,
            cost_center=plan.cost_center,
            billing_contact=plan.billing_contact,
            billing_email=plan.billing_email,
            billing_address=plan.billing_address,
            country=plan.country,
            actor=actor,
            at=at,
        )
    known = set(organization.projects.values_list("slug", flat=True))
    for project in plan.projects:
        if project.slug not in known:
            create_project(
                organization=organization,
                slug=project.slug,
                name=project.name,
                cost_center=project.cost_center,
                actor=actor,
                at=at,
            )
    for person in plan.people:
        _seed_person(person, organization, password, actor=actor, at=at)


def _seed_person(
    person: PersonPlan, organization: Organization, password: str, *, actor: Actor, at: datetime
) -> None:
    user = _person(person.username, person.name, password, is_staff=False, actor=actor, at=at)
    if Membership.objects.filter(user=user).exists():
        return
    if not person.project:
        grant_role(role=Role(person.role), user=user, organization=organization, actor=actor, at=at)
        return
    project = Project.objects.get(organization=organization, slug=person.project)
    grant_role(role=Role(person.role), user=user, project=project, actor=actor, at=at)


def _seed_clusters(
    scenario: Scenario,
    endpoints: Mapping[str, Endpoints],
    *,
    watched: Collection[str],
    metered_from: datetime,
    actor: Actor,
    at: datetime,
) -> None:
    for simulated in scenario.clusters:
        place = endpoints[simulated.slug]
        reach = {
            "prometheus_url": place.prometheus_url,
            "kubernetes_url": place.kubernetes_url,
            "is_watched": simulated.slug in watched,
            "credential_reference": place.credential_reference,
        }
        cluster = Cluster.objects.filter(slug=simulated.slug).first()
        if cluster is None:
            register_cluster(
                slug=simulated.slug,
                name=simulated.name,
                metered_from=metered_from,
                selector_label="cluster",
                selector_value=simulated.slug,
                scrape_interval_seconds=simulated.scrape_interval_seconds,
                user_label=sanitise(USER_LABEL),
                offered_resources=simulated.offered_resources,
                prometheus_url=place.prometheus_url,
                kubernetes_url=place.kubernetes_url,
                is_watched=simulated.slug in watched,
                credential_reference=place.credential_reference,
                actor=actor,
                at=at,
            )
        elif any(getattr(cluster, name) != value for name, value in reach.items()):
            update_cluster(cluster=cluster, changes=reach, actor=actor, at=at)


def _seed_bindings(
    scenario: Scenario, *, metered_from: datetime, actor: Actor, at: datetime
) -> None:
    known = set(NamespaceBinding.objects.values_list("cluster__slug", "namespace"))
    clusters = {cluster.slug: cluster for cluster in Cluster.objects.all()}
    for plan in scenario.organizations:
        for project_plan in plan.projects:
            project = Project.objects.get(organization__slug=plan.slug, slug=project_plan.slug)
            for place in project_plan.namespaces:
                if (place.cluster, place.namespace) not in known:
                    bind_namespace(
                        cluster=clusters[place.cluster],
                        namespace=place.namespace,
                        project=project,
                        valid_from=metered_from,
                        default_owner=User.objects.filter(username=place.default_owner).first(),
                        actor=actor,
                        at=at,
                    )


def _seed_prices(
    planned: PlannedBook,
    *,
    metered_from: datetime,
    year: int,
    month: int,
    actor: Actor,
    at: datetime,
) -> None:
    book = PriceBook.objects.filter(slug=planned.slug).first()
    if book is None:
        book = create_price_book(
            slug=planned.slug, name=planned.name, currency=planned.currency, actor=actor, at=at
        )
    for price in planned.prices:
        valid_from = _begin_of(price, metered_from=metered_from, year=year, month=month)
        is_known = Price.objects.filter(
            price_book=book,
            size=price.size,
            price_group=price.price_group,
            valid__startswith=valid_from,
        ).exists()
        if not is_known:
            set_price(
                price_book=book,
                size=price.size,
                price_group=price.price_group,
                unit_price=price.unit_price,
                valid_from=valid_from,
                actor=actor,
                at=at,
            )
    # What people make themselves is theirs to price.
    own = [plan.slug for plan in (TAILSPIN, *ORGANIZATIONS)]
    for organization in Organization.objects.filter(
        slug__in=own, billing_currency=planned.currency
    ):
        if not PriceBookAssignment.objects.filter(organization=organization).exists():
            assign_price_book(
                organization=organization,
                price_book=book,
                valid_from=metered_from,
                actor=actor,
                at=at,
            )


def _begin_of(price: PlannedPrice, *, metered_from: datetime, year: int, month: int) -> datetime:
    if price.from_day == 0:
        return metered_from
    return datetime(year, month, 1, tzinfo=UTC) + timedelta(days=price.from_day - 1)
