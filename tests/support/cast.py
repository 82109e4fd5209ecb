"""The cast: the same people in every test, so that a reader knows who may do what.

Alice administers Acme, Bob leads its project LLM, Carol is a member there. Dora is the finance
admin, Frank the platform admin, Ann the auditor. Mallory administers Umbrella, which is nobody
else's business.
"""

from dataclasses import dataclass

from django.contrib.auth.models import User

from tenants.domain.identity.roles import Role
from tenants.models import Organization, Project
from tests.support.builders import grant, make_organization, make_project, make_user


@dataclass(frozen=True)
class Cast:
    """Everybody, and what they belong to."""

    acme: Organization
    llm: Project
    vision: Project
    umbrella: Organization
    virus: Project
    alice: User
    bob: User
    carol: User
    dora: User
    frank: User
    ann: User
    mallory: User


def make_cast() -> Cast:
    """Return the whole cast, saved, with their roles."""
    acme = make_organization("acme")
    umbrella = make_organization("umbrella")
    llm, vision = make_project(acme, "llm"), make_project(acme, "vision")
    virus = make_project(umbrella, "virus")
    people = {
        name: make_user(name)
        for name in ("alice", "bob", "carol", "dora", "frank", "ann", "mallory")
    }
    grant(people["alice"], Role.ORGANIZATION_ADMIN, organization=acme)
    grant(people["bob"], Role.PROJECT_LEAD, project=llm)
    grant(people["carol"], Role.MEMBER, project=llm)
    grant(people["dora"], Role.FINANCE_ADMIN)
    grant(people["frank"], Role.PLATFORM_ADMIN)
    grant(people["ann"], Role.AUDITOR)
    grant(people["mallory"], Role.ORGANIZATION_ADMIN, organization=umbrella)
    return Cast(acme=acme, llm=llm, vision=vision, umbrella=umbrella, virus=virus, **people)
