"""The cast and rows of every table in three places, for the tests of who may see and do what."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone
from rest_framework.test import APIClient

from tenants.domain.actors import system_actor
from tenants.domain.identity.roles import Role
from tenants.models import AuditEntry, Cluster, Membership, ServiceAccount
from tenants.services.audit import record
from tenants.services.identity.memberships import grant_role
from tenants.services.identity.tokens import create_service_account, issue_token
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.tenants.clients import api_client

SEED = system_actor("seed")
CANARIES = ("umbrella", "virus", "mallory", "raccoon", "hive")
"""Words that stand only in rows of Umbrella, which is nobody's business but Mallory's."""
CALLERS = ("anonymous", "carol", "bob", "alice", "bot", "mallory", "dora", "ann", "frank")
NOBODY = UUID(int=0)


@dataclass(frozen=True)
class World:
    """The cast, and rows of every table in three places."""

    cast: Cast
    bot: ServiceAccount
    ids: dict[str, dict[str, Any]]
    """By resource, by place: own, sibling, other, nonexistent."""


def make_world(cast: Cast) -> World:
    """Rows of Acme's LLM (own), of Acme (sibling), and of Umbrella (other)."""
    hopper = make_cluster("hopper")
    bot, hive = (
        create_service_account(organization=o, slug=slug, name=slug, actor=SEED, at=AT)
        for o, slug in ((cast.acme, "bot"), (cast.umbrella, "hive"))
    )
    grant_role(role=Role.MEMBER, service_account=bot, project=cast.llm, actor=SEED, at=AT)
    for project, organization, name in (
        (cast.vision, cast.acme, "vision"),
        (cast.virus, cast.umbrella, "raccoon"),
    ):
        record(
            actor=SEED,
            at=AT,
            action="tenants:test:note",
            object_kind="note",
            object_id=project.pk,
            organization_id=organization.pk,
            facts={"note": name},
        )
    return World(
        cast=cast,
        bot=bot,
        ids={
            "organizations": _places(cast.acme.pk, cast.acme.pk, cast.umbrella.pk),
            "projects": _places(cast.llm.pk, cast.vision.pk, cast.virus.pk),
            "clusters": _places(hopper.pk, hopper.pk, hopper.pk),
            "namespace-bindings": _bindings(cast, hopper),
            "service-accounts": _places(bot.pk, bot.pk, hive.pk),
            "memberships": _places(
                Membership.objects.get(user=cast.carol).pk,
                Membership.objects.get(user=cast.alice).pk,
                Membership.objects.get(user=cast.mallory).pk,
            ),
            "api-tokens": _tokens(bot, hive),
            "audit-entries": _entries(cast),
        },
    )


def _places(own: object, sibling: object, other: object) -> dict[str, object]:
    return {"own": own, "sibling": sibling, "other": other, "nonexistent": NOBODY}


def _bindings(cast: Cast, hopper: Cluster) -> dict[str, object]:
    made = [
        bind(hopper, name, project)
        for name, project in (("llm", cast.llm), ("vision", cast.vision), ("raccoon", cast.virus))
    ]
    return _places(*(binding.pk for binding in made))


def _tokens(bot: ServiceAccount, hive: ServiceAccount) -> dict[str, object]:
    at = timezone.now()
    own, other = (
        issue_token(
            name=account.slug,
            expires_at=at + timedelta(days=1),
            service_account=account,
            actor=SEED,
            at=at,
        ).token.pk
        for account in (bot, hive)
    )
    return _places(own, own, other)


def _entries(cast: Cast) -> dict[str, object]:
    notes = AuditEntry.objects.filter(object_kind="note")
    own = notes.get(organization_id=cast.acme.pk).pk
    other = notes.get(organization_id=cast.umbrella.pk).pk
    return {"own": own, "sibling": own, "other": other, "nonexistent": 10**9}


def caller(world: World, name: str) -> APIClient:
    if name == "anonymous":
        return api_client()
    return api_client(world.bot if name == "bot" else getattr(world.cast, name))
