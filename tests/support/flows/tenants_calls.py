"""Every call of tenants: who does it, how, and the entries it leaves."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from tenants.domain.actors import Actor
from tenants.domain.identity.account_changes import ChangeKind
from tenants.domain.identity.roles import Role
from tenants.models import (
    AccountChange,
    ApiToken,
    Cluster,
    Invitation,
    Membership,
    NamespaceBinding,
    Project,
    ServiceAccount,
)
from tenants.selectors.actors import actor_of_user
from tenants.services import clusters, namespaces, organizations
from tenants.services.identity import account_changes, invitations, memberships, people, tokens
from tenants.services.identity import tokens as service_accounts
from tests.support.builders import (
    AT,
    grant,
    make_cluster,
    make_organization,
    make_project,
    make_user,
)
from tests.support.flows.estate import Estate

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


def open_change(estate: Estate) -> UUID:
    """Return a change that Fiona has asked for, a second platform admin."""
    fiona = make_user("fiona")
    grant(fiona, Role.PLATFORM_ADMIN)
    change = AccountChange.objects.create(
        kind=ChangeKind.ROLE.value,
        subject=estate.cast.bob,
        value=Role.AUDITOR.value,
        email=estate.cast.bob.email,
        username="bob",
        requested_by=fiona,
        requested_at=AT,
        expires_at=SOON,
    )
    return change.pk


def ask(estate: Estate, who: Any) -> object:  # noqa: ANN401 - Keyword arguments of any service.
    grant(make_user("fiona"), Role.PLATFORM_ADMIN)
    return account_changes.ask_change(
        kind=ChangeKind.STAFF, subject=estate.cast.bob, is_mail_set_up=True, **who
    )


def open_binding(estate: Estate) -> NamespaceBinding:
    """Return a binding without end, which nobody has reported the trail of."""
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
    "tenants.organizations.create_project": (
        frank,
        lambda e, who: organizations.create_project(
            organization=e.cast.acme, slug="new", name="New", **who
        ),
        [("tenants:project:create", "acme")],
    ),
    "tenants.organizations.update_project": (
        frank,
        lambda e, who: organizations.update_project(
            project=e.cast.llm, changes={"cost_center": "CC-9"}, **who
        ),
        [("tenants:project:update", "acme")],
    ),
    "tenants.organizations.close_project": (
        frank,
        lambda _, who: organizations.close_project(project=empty_project(), **who),
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
    "tenants.identity.memberships.grant_role": (
        frank,
        lambda e, who: memberships.grant_role(
            role=Role.MEMBER, user=e.cast.ann, project=e.cast.vision, **who
        ),
        [("tenants:membership:create", "acme")],
    ),
    "tenants.identity.invitations.invite": (
        frank,
        lambda e, who: invitations.invite(
            email="new@example.test",
            role=Role.MEMBER,
            project=e.cast.llm,
            is_mail_set_up=True,
            **who,
        ),
        [("tenants:invitation:create", "acme")],
    ),
    "tenants.identity.invitations.withdraw_invitation": (
        frank,
        lambda _, who: invitations.withdraw_invitation(
            invitation=Invitation.objects.get(project__slug="llm"), **who
        ),
        [("tenants:invitation:withdraw", "acme")],
    ),
    "tenants.identity.memberships.revoke_role": (
        frank,
        lambda e, who: memberships.revoke_role(
            membership=Membership.objects.get(user=e.cast.carol), **who
        ),
        [("tenants:membership:delete", "acme")],
    ),
    "tenants.identity.tokens.create_service_account": (
        frank,
        lambda e, who: service_accounts.create_service_account(
            organization=e.cast.acme, slug="new", name="New", **who
        ),
        [("tenants:service_account:create", "acme")],
    ),
    "tenants.identity.tokens.close_service_account": (
        frank,
        lambda _, who: service_accounts.close_service_account(
            account=ServiceAccount.objects.get(slug="hive"), **who
        ),
        [("tenants:service_account:close", "umbrella")],
    ),
    "tenants.identity.tokens.issue_token": (
        frank,
        lambda e, who: tokens.issue_token(
            name="ci", expires_at=SOON, service_account=e.robot, **who
        ),
        [("tenants:api_token:create", "acme")],
    ),
    "tenants.identity.tokens.revoke_token": (
        frank,
        lambda _, who: tokens.revoke_token(token=ApiToken.objects.get(name="of-hive"), **who),
        [("tenants:api_token:revoke", "umbrella")],
    ),
    "tenants.identity.account_changes.ask_change": (
        frank,
        ask,
        [("tenants:account_change:create", None)],
    ),
    "tenants.identity.account_changes.approve_change": (
        frank,
        lambda e, who: account_changes.approve_change(change_id=open_change(e), **who),
        [
            ("tenants:account_change:approve", None),
            ("tenants:membership:create", None),
            ("tenants:user:end_credentials", None),
        ],
    ),
    "tenants.identity.account_changes.decline_change": (
        frank,
        lambda e, who: account_changes.decline_change(change_id=open_change(e), **who),
        [("tenants:account_change:decline", None)],
    ),
    "tenants.identity.people.create_person": (
        frank,
        lambda _, who: people.create_person(
            username="new", email="new@example.test", is_mail_set_up=True, **who
        ),
        [("tenants:user:create", None)],
    ),
    "tenants.identity.people.change_person": (
        frank,
        lambda e, who: people.change_person(user=e.cast.bob, changes={"first_name": "B"}, **who),
        [("tenants:user:update", None)],
    ),
    "tenants.identity.people.note_password_link": (
        frank,
        lambda e, who: people.note_password_link(user=e.cast.bob, **who),
        [("tenants:user:password_link", None)],
    ),
    "tenants.identity.people.set_password": (
        bob,
        lambda e, who: people.set_password(user=e.cast.bob, password="x", by="own", **who),
        [("tenants:user:password", None)],
    ),
    "tenants.identity.people.deactivate_user": (
        frank,
        lambda e, who: people.deactivate_user(user=e.cast.bob, **who),
        [("tenants:user:deactivate", None)],
    ),
    "tenants.identity.people.activate_user": (
        frank,
        lambda _, who: people.activate_user(user=switched_off(), **who),
        [("tenants:user:activate", None), ("tenants:user:end_credentials", None)],
    ),
}
