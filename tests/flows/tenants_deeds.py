"""Every deed of tenants: who does it, how, and the entries it leaves."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User

from tenants.domain.actors import Actor
from tenants.domain.roles import Role
from tenants.models import ApiToken, Cluster, Membership, NamespaceBinding, Project, ServiceAccount
from tenants.selectors.actors import actor_of_user
from tenants.services import (
    clusters,
    memberships,
    namespaces,
    organizations,
    people,
    projects,
    service_accounts,
    tokens,
)
from tests.builders import AT, make_cluster, make_organization, make_project, make_user
from tests.flows.estate import Estate

Does = Callable[[Estate, Any], object]
SOON = AT.replace(minute=0) + timedelta(days=40)


def frank(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.frank)


def bob(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.bob)


def empty_project() -> Project:
    return make_project(make_organization("fresh"), "fresh")


def switched_off() -> User:
    user = make_user("ghost")
    user.is_active = False
    user.save()
    return user


def open_binding(estate: Estate) -> NamespaceBinding:
    """Return a binding without end, which nobody has told the trail of."""
    binding = NamespaceBinding.objects.get(project=estate.cast.llm)
    binding.pk, binding.namespace = None, "open"
    binding.valid = type(binding.valid)(SOON, None)
    binding._state.adding = True  # noqa: SLF001 - Django's documented way to copy a row.
    binding.save()
    return binding


TENANTS_DEEDS: dict[str, tuple[Callable[[Estate], Actor], Does, list[tuple[str, str | None]]]] = {
    "tenants.organizations.create_organization": (
        frank,
        lambda _, who: organizations.create_organization(
            slug="new", name="New", billing_currency="EUR", **who
        ),
        [("tenants:organization:create", "new")],
    ),
    "tenants.organizations.update_organization": (
        frank,
        lambda e, who: organizations.update_organization(
            organization=e.cast.acme, changes={"name": "Other"}, **who
        ),
        [("tenants:organization:update", "acme")],
    ),
    "tenants.organizations.close_organization": (
        frank,
        lambda _, who: organizations.close_organization(
            organization=make_organization("fresh"), **who
        ),
        [("tenants:organization:close", "fresh")],
    ),
    "tenants.projects.create_project": (
        frank,
        lambda e, who: projects.create_project(
            organization=e.cast.acme, slug="new", name="New", **who
        ),
        [("tenants:project:create", "acme")],
    ),
    "tenants.projects.update_project": (
        frank,
        lambda e, who: projects.update_project(
            project=e.cast.llm, changes={"cost_center": "CC-9"}, **who
        ),
        [("tenants:project:update", "acme")],
    ),
    "tenants.projects.close_project": (
        frank,
        lambda _, who: projects.close_project(project=empty_project(), **who),
        [("tenants:project:close", "fresh")],
    ),
    "tenants.clusters.register_cluster": (
        frank,
        lambda _, who: clusters.register_cluster(slug="new", name="New", metered_from=SOON, **who),
        [("tenants:cluster:create", None)],
    ),
    "tenants.clusters.update_cluster": (
        frank,
        lambda _, who: clusters.update_cluster(
            cluster=Cluster.objects.get(), changes={"name": "Other"}, **who
        ),
        [("tenants:cluster:update", None)],
    ),
    "tenants.clusters.close_cluster": (
        frank,
        lambda _, who: clusters.close_cluster(cluster=make_cluster("fresh"), **who),
        [("tenants:cluster:close", None)],
    ),
    "tenants.namespaces.bind_namespace": (
        frank,
        lambda e, who: namespaces.bind_namespace(
            cluster=Cluster.objects.get(),
            namespace="new",
            project=e.cast.llm,
            valid_from=SOON,
            **who,
        ),
        [("tenants:namespace_binding:create", "acme")],
    ),
    "tenants.namespaces.close_binding": (
        frank,
        lambda e, who: namespaces.close_binding(
            binding=open_binding(e), valid_until=SOON + timedelta(hours=1), **who
        ),
        [("tenants:namespace_binding:close", "acme")],
    ),
    "tenants.memberships.grant_role": (
        frank,
        lambda e, who: memberships.grant_role(
            role=Role.MEMBER, user=e.cast.ann, project=e.cast.vision, **who
        ),
        [("tenants:membership:create", "acme")],
    ),
    "tenants.memberships.revoke_role": (
        frank,
        lambda e, who: memberships.revoke_role(
            membership=Membership.objects.get(user=e.cast.carol), **who
        ),
        [("tenants:membership:delete", "acme")],
    ),
    "tenants.service_accounts.create_service_account": (
        frank,
        lambda e, who: service_accounts.create_service_account(
            organization=e.cast.acme, slug="new", name="New", **who
        ),
        [("tenants:service_account:create", "acme")],
    ),
    "tenants.service_accounts.close_service_account": (
        frank,
        lambda _, who: service_accounts.close_service_account(
            account=ServiceAccount.objects.get(slug="hive"), **who
        ),
        [("tenants:service_account:close", "umbrella")],
    ),
    "tenants.tokens.issue_token": (
        frank,
        lambda e, who: tokens.issue_token(
            name="ci", expires_at=SOON, service_account=e.robot, **who
        ),
        [("tenants:api_token:create", "acme")],
    ),
    "tenants.tokens.revoke_token": (
        frank,
        lambda _, who: tokens.revoke_token(token=ApiToken.objects.get(name="of-hive"), **who),
        [("tenants:api_token:revoke", "umbrella")],
    ),
    "tenants.people.deactivate_user": (
        frank,
        lambda e, who: people.deactivate_user(user=e.cast.bob, **who),
        [("tenants:user:deactivate", None)],
    ),
    "tenants.people.activate_user": (
        frank,
        lambda _, who: people.activate_user(user=switched_off(), **who),
        [("tenants:user:activate", None)],
    ),
}
