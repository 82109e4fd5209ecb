"""Builders: what tests need to exist, made directly and with plain defaults.

Each returns the saved object. `AT` is the moment tests happen unless they say otherwise.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import QuerySet

from tenants.domain.actors import system_actor
from tenants.domain.identity.roles import Role
from tenants.models import (
    AuditEntry,
    Cluster,
    Invitation,
    Membership,
    NamespaceBinding,
    Organization,
    Project,
)
from tenants.services.audit import record

AT = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
MONTH_START = datetime(2026, 10, 1, tzinfo=UTC)
BUILDERS = system_actor("tests.support.builders")
UPDATED = ("username", "email", "first_name", "last_name", "is_staff")
MONTH_END = datetime(2026, 11, 1, tzinfo=UTC)


def audit_entries() -> QuerySet[AuditEntry]:
    """Return what services left in the trail, without the entries of builders."""
    return AuditEntry.objects.exclude(actor_id=BUILDERS.id)


@contextmanager
def audited() -> Iterator[None]:
    """Let people, roles and tokens be changed directly: the database asks for an audit entry.

    Only at commit; a test that is rolled back leaves none, see `django_db_setup`.
    """
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        before = _people()
        yield
        for person in _people().values():
            _audit(before.get(person["id"], {}), person)


def _people() -> dict[int, dict[str, Any]]:
    """Return every person's row, with the person's roles by membership."""
    roles: dict[int, dict[object, Membership]] = {}
    for membership in Membership.objects.exclude(user=None).select_related("project"):
        roles.setdefault(membership.user_id or 0, {})[membership.pk] = membership
    return {row["id"]: {**row, "roles": roles.get(row["id"], {})} for row in User.objects.values()}


def _audit(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Write what services would of the difference between a person's rows."""
    name, roles = after["username"], (before.get("roles", {}), after["roles"])
    for verb, given, left in (("delete", *roles), ("create", *reversed(roles))):
        for key in given.keys() - left.keys():
            role, project = given[key].role, given[key].project
            facts = {"role": role, "holder": name, "project_id": project and str(project.pk)}
            place = project.organization_id if project else given[key].organization_id
            _entry(f"membership:{verb}", key, facts, organization_id=place)
    if not before:
        made = ("username", "email", "is_staff", "is_superuser")
        _entry("user:create", after["id"], {field: after[field] for field in made})
        return
    changed = {field: [before[field], after[field]] for field in after if field in UPDATED}
    _entry("user:update", after["id"], {"changed": changed})
    if before["password"] != after["password"]:
        _entry("user:password", after["id"], {})
    if before["is_active"] != after["is_active"]:
        _entry(f"user:{'activate' if after['is_active'] else 'deactivate'}", after["id"], {})


def _entry(
    action: str, key: object, facts: dict[str, Any], *, organization_id: UUID | None = None
) -> None:
    record(
        actor=BUILDERS,
        at=AT,
        action=f"tenants:{action}",
        object_kind=action.partition(":")[0],
        object_id=key,
        organization_id=organization_id,
        facts=facts,
    )


def make_user(username: str = "alice", **fields: object) -> User:
    """Return a person who can sign in with the password "correct horse battery"."""
    user = new_user(username, **fields)
    with audited():
        user.save()
    return user


def new_user(username: str, **fields: object) -> User:
    """Return a person as `make_user` does, not saved yet."""
    user = User(username=username, email=f"{username}@example.test", **fields)
    user.set_password("correct horse battery")
    return user


def make_organization(slug: str = "acme", **fields: object) -> Organization:
    """Return an organization billed in euros for UTC months."""
    made = new_organization(slug, **fields)
    made.save(force_insert=True)
    return made


def new_organization(slug: str, **fields: object) -> Organization:
    """Return an organization as `make_organization` does, not saved yet."""
    defaults: dict[str, object] = {
        "name": slug.capitalize(),
        "billing_currency": "EUR",
        "created_at": AT,
    }
    return Organization(slug=slug, **{**defaults, **fields})


def make_project(organization: Organization, slug: str = "llm", **fields: object) -> Project:
    """Return a project of an organization."""
    made = new_project(organization, slug, **fields)
    made.save(force_insert=True)
    return made


def new_project(organization: Organization, slug: str, **fields: object) -> Project:
    """Return a project as `make_project` does, not saved yet."""
    defaults: dict[str, object] = {"name": slug.upper(), "created_at": AT}
    return Project(organization=organization, slug=slug, **{**defaults, **fields})


def make_cluster(slug: str = "hopper", **fields: object) -> Cluster:
    """Return a cluster that is metered from the start of October 2026."""
    defaults: dict[str, object] = {
        "name": slug.capitalize(),
        "prometheus_url": "http://127.0.0.1:9/",
        "kubernetes_url": "https://127.0.0.1:9/",
        "user_label": "billing_example_com_user",
        "offered_resources": ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"],
        "metered_from": MONTH_START,
        "created_at": AT,
    }
    return Cluster.objects.create(slug=slug, **{**defaults, **fields})


def bind(
    cluster: Cluster,
    namespace: str,
    project: Project,
    *,
    begin_at: datetime | None = MONTH_START,
    end_at: datetime | None = None,
    default_owner: User | None = None,
) -> NamespaceBinding:
    """Return a binding of a namespace to a project, by default until further notice."""
    return NamespaceBinding.objects.create(
        cluster=cluster,
        namespace=namespace,
        project=project,
        default_owner=default_owner,
        valid=DateTimeTZRange(begin_at, end_at),
        created_at=AT,
    )


def make_invitation(project: Project, by: User, **fields: object) -> Invitation:
    """Return an open invitation of a stranger to be member of a project."""
    defaults: dict[str, object] = {
        "email": f"newcomer@{project.slug}.test",
        "role": Role.MEMBER.value,
        "digest": hashlib.sha256(f"{project.pk}".encode()).digest(),
        "created_at": AT,
        "expires_at": AT.replace(year=2100),
    }
    return Invitation.objects.create(project=project, invited_by=by, **{**defaults, **fields})


def grant(
    user: User,
    role: Role,
    *,
    organization: Organization | None = None,
    project: Project | None = None,
) -> Membership:
    """Return a role given to a person."""
    made = new_membership(user, role, organization=organization, project=project)
    with audited():
        made.save(force_insert=True)
    return made


def new_membership(
    user: User,
    role: Role,
    *,
    organization: Organization | None = None,
    project: Project | None = None,
) -> Membership:
    """Return a role as `grant` gives it, not saved yet."""
    return Membership(
        user=user, role=role.value, organization=organization, project=project, created_at=AT
    )
