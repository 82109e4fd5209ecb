"""People by the name they sign in with, by what they hold, and their open sessions."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Max, Q, QuerySet

from tenants.domain.errors import NotFoundError
from tenants.domain.identity.account_changes import PLATFORM_ROLES, ChangeKind, ChangeState
from tenants.domain.identity.roles import Role
from tenants.models import AccountChange, ApiToken, AuditEntry, Membership, PersonSession

SHARED_ADDRESS_MAX: Final = 5
"""Accounts of one address that are sent a link: a list would be a way to send many mails."""


def user_named(username: str, *, field: str = "user", among: QuerySet[User] | None = None) -> User:
    """Return the person with a user name.

    Args:
        username: As written at sign-in.
        field: The input field to blame.
        among: People visible to the caller; for others the error is the same as for no such name.

    Raises:
        NotFoundError: No visible person has it.
    """
    people = User.objects.all() if among is None else among
    user = people.filter(username=username).first()
    if user is None:
        raise NotFoundError(
            "Nobody has this user name.",
            field=field,
            remedy="Check how the name is written, or invite the person's mail address.",
        )
    return user


def holders_in(organization_id: UUID) -> QuerySet[User]:
    """Return the people with a role in an organization or in one of its projects."""
    held = Q(organization=organization_id) | Q(project__organization=organization_id)
    holding = Membership.objects.filter(held, user__isnull=False)
    return User.objects.filter(pk__in=holding.values("user_id"))


def people_with_address(address: str) -> list[User]:
    """Return the active people with this mail address; none for an empty one."""
    if not address:
        return []
    people = User.objects.filter(email__iexact=address, is_active=True).order_by("pk")
    return list(people[:SHARED_ADDRESS_MAX])


def platform_admins() -> QuerySet[User]:
    """Return the active platform admins, superusers included."""
    held = Membership.objects.filter(role=Role.PLATFORM_ADMIN.value, user__isnull=False)
    return User.objects.filter(
        Q(pk__in=held.values("user_id")) | Q(is_superuser=True), is_active=True
    )


def holds_platform_role(user: User) -> bool:
    """Whether a person reaches every organization, by a role or as superuser."""
    roles = [role.value for role in PLATFORM_ROLES]
    return user.is_superuser or Membership.objects.filter(user=user, role__in=roles).exists()


def is_guarded(user: User, *, at: datetime) -> bool:
    """Whether address, name and activation of a person need a second person to change.

    True for a person with a platform role, and while one is requested: the approver reviews the
    address at that time.

    Args:
        user: The person.
        at: When, UTC.
    """
    asked = AccountChange.objects.filter(
        subject=user,
        kind__in=[ChangeKind.ROLE.value, ChangeKind.STAFF.value],
        state=ChangeState.OPEN.value,
        expires_at__gt=at,
    )
    return holds_platform_role(user) or asked.exists()


def has_first_token(user: User, *, at: datetime) -> bool:
    """Whether a person with a role of the platform may issue tokens alone.

    True once a token was issued since the last such role was granted, or a second person has
    approved the first token. Tokens from before do not count: they had fewer capabilities.

    Args:
        user: The owner.
        at: When, UTC; an approval counts until it expires.
    """
    allowed = AccountChange.objects.filter(
        subject=user,
        kind=ChangeKind.FIRST_TOKEN.value,
        state=ChangeState.APPROVED.value,
        expires_at__gt=at,
    )
    raised = Membership.objects.filter(user=user, role__in=[role.value for role in PLATFORM_ROLES])
    raised_at = raised.aggregate(at=Max("created_at"))["at"]
    issued = ApiToken.objects.filter(user=user)
    if raised_at is not None:
        issued = issued.filter(created_at__gt=raised_at)
    return issued.exists() or allowed.exists()


def roles_of(user: User) -> QuerySet[Membership]:
    """Return what a person holds, with the scope of each role."""
    return Membership.objects.filter(user=user).select_related(
        "organization", "project__organization"
    )


def open_first_token(user: User, *, at: datetime) -> AccountChange | None:
    """Return the open request for a person's first token; None when there is none."""
    return AccountChange.objects.filter(
        subject=user,
        kind=ChangeKind.FIRST_TOKEN.value,
        state=ChangeState.OPEN.value,
        expires_at__gt=at,
    ).first()


def was_done_since(user: User, action: str, moment: datetime) -> bool:
    """Whether the trail has an entry of an action on a person after a moment."""
    return _entries_since(user, action, moment).exists()


def times_done_since(user: User, action: str, moment: datetime) -> int:
    """Return how many entries of an action on a person the trail has after a moment."""
    return _entries_since(user, action, moment).count()


def _entries_since(user: User, action: str, moment: datetime) -> QuerySet[AuditEntry]:
    return AuditEntry.objects.filter(
        object_kind="user",
        object_id=str(user.pk),
        action=action,
        occurred_at__gt=moment,
    )


SHOWN_MAX: Final = 200
"""Far more browsers than a person has."""


@dataclass(frozen=True)
class SessionFact:
    """One session; its key is not among this.

    Attributes:
        began_at: When the person signed in.
        last_used_at: Within a minute.
        ends_at: When it ends if it is not used any more.
        browser: What the browser calls itself.
    """

    id: UUID
    began_at: datetime
    last_used_at: datetime
    ends_at: datetime
    browser: str
    is_current: bool


def sessions_of(user: User, *, current: UUID | None, at: datetime) -> tuple[SessionFact, ...]:
    """Return a person's sessions, the newest first.

    Args:
        user: The owner.
        current: The session of the request; None for a token.
        at: When, UTC.
    """
    rows = PersonSession.objects.filter(
        user=user, public_id__isnull=False, expire_date__gt=at
    ).order_by("-public_id")
    return tuple(_fact(row, current=current) for row in rows[:SHOWN_MAX])


def _fact(row: PersonSession, *, current: UUID | None) -> SessionFact:
    data = row.get_decoded()
    return SessionFact(
        id=UUID(str(row.public_id)),
        began_at=datetime.fromtimestamp(data.get("began_at", 0), tz=UTC),
        last_used_at=datetime.fromtimestamp(data.get("used_at", 0), tz=UTC),
        ends_at=row.expire_date,
        browser=str(data.get("browser", "")),
        is_current=row.public_id == current,
    )
