"""The events that are reported, and the recipients of mail about each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tenants.domain.identity.roles import ROLE_SCOPES, Role, RoleScope

_PLATFORM: Final = frozenset({RoleScope.PLATFORM})
_ORGANIZATION: Final = frozenset({RoleScope.ORGANIZATION})
_PEOPLE: Final = frozenset(RoleScope)


@dataclass(frozen=True)
class NotificationEvent:
    """What an event means; the pages of preferences and the reference are made of this.

    Attributes:
        label: What it is called on a page.
        when: When it is reported.
        recipients: Of mails about it.
        scopes: Which roles bring mails about it.
    """

    label: str
    when: str
    recipients: str
    scopes: frozenset[RoleScope] = _PEOPLE


_LOAN_PARTIES: Final = "administrators of the organization, leads of both projects"
_DOCUMENT_PARTIES: Final = "administrators of the organization, mail address of its recipient"

NOTIFICATION_EVENTS: Final[Mapping[str, NotificationEvent]] = {
    "tenants:account_change:asked": NotificationEvent(
        "Change to an account needs you",
        "a change to an account needs a second person",
        "platform admins",
        _PLATFORM,
    ),
    "metering:incident:opened": NotificationEvent(
        "New incidents",
        "exceptions of a new cause were opened; those of a quarter of an hour in one mail",
        "platform admins",
        _PLATFORM,
    ),
    "quotas:request:submitted": NotificationEvent(
        "Quota request needs a decision", "a step needs a decision", "people of the step's level"
    ),
    "quotas:request:escalated": NotificationEvent(
        "Quota request was moved up",
        "a step was not decided in time",
        "people of the next level",
    ),
    "quotas:request:commented": NotificationEvent(
        "Comment on a quota request", "a comment was added", "requester and present deciders"
    ),
    "quotas:request:approved": NotificationEvent(
        "Quota request approved", "the request is approved", "requester"
    ),
    "quotas:request:rejected": NotificationEvent(
        "Quota request rejected", "the request is rejected", "requester"
    ),
    "quotas:request:expired": NotificationEvent(
        "Quota request expired", "the request was not decided in time", "requester"
    ),
    "quotas:grant:ending": NotificationEvent(
        "Granted units end soon",
        "a grant of a request ends within the policy's days",
        "requester",
    ),
    "quotas:loan:proposed": NotificationEvent(
        "Loan proposed",
        "a loan would help, and the policy requires approval",
        _LOAN_PARTIES,
    ),
    "quotas:loan:active": NotificationEvent(
        "Loan began",
        "a loan was approved, by a person or within the policy's numbers",
        _LOAN_PARTIES,
    ),
    "quotas:loan:declined": NotificationEvent(
        "Loan declined", "a loan was declined", _LOAN_PARTIES
    ),
    "quotas:loan:ended": NotificationEvent(
        "Loan ended", "the time of a loan is over", _LOAN_PARTIES
    ),
    "quotas:loan:recalled": NotificationEvent(
        "Loan recalled", "a loan was recalled before its time", _LOAN_PARTIES
    ),
    "quotas:preemption:proposed": NotificationEvent(
        "Preemption proposed",
        "a tenant is over its limits for the set time; once for each such period",
        "administrators of the organization and of the platform",
        _PLATFORM | _ORGANIZATION,
    ),
    "quotas:preemption:announced": NotificationEvent(
        "Pods will be ended",
        "a plan is executed: pods will be ended after the time of grace",
        "administrators of the organization and of the platform; owners of the pods, for their own "
        "pods only",
    ),
    "billing:invoice:finalized": NotificationEvent(
        "New invoice", "an invoice is final; it is attached", _DOCUMENT_PARTIES, _ORGANIZATION
    ),
    "billing:credit_note:finalized": NotificationEvent(
        "New credit note",
        "a credit note is final; it is attached",
        _DOCUMENT_PARTIES,
        _ORGANIZATION,
    ),
    "billing:debit_note:finalized": NotificationEvent(
        "New debit note",
        "a debit note is final; it is attached",
        _DOCUMENT_PARTIES,
        _ORGANIZATION,
    ),
    "billing:invoice:overdue": NotificationEvent(
        "Invoice overdue",
        "an invoice reached a level of `DUNNING_DAYS` unpaid; once a level",
        _DOCUMENT_PARTIES,
        _ORGANIZATION,
    ),
    "billing:period:blocked": NotificationEvent(
        "Months that cannot be billed",
        "months are over and something keeps them from being billed; once a day while it does",
        "finance admins",
        _PLATFORM,
    ),
    "billing:export:failed": NotificationEvent(
        "Export was not delivered",
        "a run of a scheduled export failed for good",
        "finance admins",
        _PLATFORM,
    ),
}
"""By name, `<app>:<resource>:<verb>`."""


def events_of_roles(roles: Iterable[Role]) -> dict[str, NotificationEvent]:
    """Return the events about which some roles bring mails."""
    scopes = {ROLE_SCOPES[role] for role in roles}
    return {name: event for name, event in NOTIFICATION_EVENTS.items() if event.scopes & scopes}
