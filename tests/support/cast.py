"""The cast: the same people in every test, so that a reader knows who may do what.

Alice administers Acme, Bob leads its project LLM, Carol is a member there. Dora is the finance
admin, Frank the platform admin, Ann the auditor. Mallory administers Umbrella, which is nobody
else's business.
"""

from dataclasses import dataclass

from django.contrib.auth.models import User

from tenants.domain.identity.roles import Role
from tenants.models import Membership, Organization, Project
from tests.support.builders import (
    audited,
    new_membership,
    new_organization,
    new_project,
    new_user,
)

PEOPLE = ("alice", "bob", "carol", "dora", "frank", "ann", "mallory")


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
    """Return the whole cast, saved, with their roles: one statement a table."""
    acme, umbrella = Organization.objects.bulk_create(
        [new_organization("acme"), new_organization("umbrella")]
    )
    llm, vision, virus = Project.objects.bulk_create(
        [new_project(acme, "llm"), new_project(acme, "vision"), new_project(umbrella, "virus")]
    )
    with audited():
        people = {
            user.username: user
            for user in User.objects.bulk_create([new_user(name) for name in PEOPLE])
        }
        Membership.objects.bulk_create(
            [
                new_membership(people["alice"], Role.ORGANIZATION_ADMIN, organization=acme),
                new_membership(people["bob"], Role.PROJECT_LEAD, project=llm),
                new_membership(people["carol"], Role.MEMBER, project=llm),
                new_membership(people["dora"], Role.FINANCE_ADMIN),
                new_membership(people["frank"], Role.PLATFORM_ADMIN),
                new_membership(people["ann"], Role.AUDITOR),
                new_membership(people["mallory"], Role.ORGANIZATION_ADMIN, organization=umbrella),
            ]
        )
    return Cast(acme=acme, llm=llm, vision=vision, umbrella=umbrella, virus=virus, **people)
