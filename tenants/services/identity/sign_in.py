"""Limits on guesses and on mails that people ask for, and their trace. See docs/adr/0036.

One attempt is one statement, before any password is hashed. From a network that the account has
signed in from, only that account's own attempts from there count; so no guesses from elsewhere, and
none at other accounts, refuse its owner. So it is with a browser in which the account has signed
in, wherever it is. All other attempts count for the account and for the network.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import connection, transaction
from django.utils.crypto import salted_hmac

from tenants.domain.actors import Actor
from tenants.domain.identity.sign_in import NO_DEVICE, PROOF_LENGTH, Device
from tenants.domain.refusals import TooManyAttemptsError, TooManyInvitationsError
from tenants.models.sign_in import AttemptKind
from tenants.services.audit import record
from tenants.services.retention import in_batches, require_service

SPAN: Final = timedelta(minutes=10)
ATTEMPTS_MAX: Final = 10
"""In one span, so at most 20 in any ten minutes; more than people need for their own password."""
TOKEN_ATTEMPTS_MAX: Final = 30
"""Wrong tokens of one network in a span: some programs may go on with a token that has expired."""
INVITED_MAX: Final = 3
"""Invitations of one address in a span, by all accounts: a mailbox is not filled with them."""
INVITATIONS_MAX: Final = 100
"""Of one account in a span: a course is invited at once."""
KNOWN_FOR: Final = timedelta(days=90)
"""How long a network stays known after the last sign-in from it."""

_COUNT: Final = """
INSERT INTO tenants_attemptcount AS c (kind, key, since, attempts, subject)
SELECT kind, key, date_bin(%(span)s, clock_timestamp(), 'epoch'), 1, subject FROM ({keys}) AS keys
 ORDER BY kind
    ON CONFLICT (kind, key, since) DO UPDATE SET attempts = c.attempts + 1
RETURNING id, kind, subject, attempts,
          ceil(extract(epoch FROM since + %(span)s - clock_timestamp()))::integer
"""
_KEYS_OF_SIGN_IN: Final = """
WITH named AS (
  SELECT coalesce((SELECT id FROM auth_user WHERE username = %(username)s), 0) AS id),
origin AS (
  SELECT id, coalesce(nullif(id, 0)::text, '') AS subject,
         CASE WHEN id > 0 AND id = %(device_of)s AND EXISTS (
                SELECT FROM auth_user u WHERE u.id = named.id AND %(proof)s = left(
                  encode(sha256(convert_to(u.password, 'UTF8')), 'hex'), %(proof_length)s))
                THEN 'device'
              WHEN EXISTS (SELECT FROM tenants_knownnetwork k
                            WHERE k.user_id = named.id AND k.network = %(network)s
                              AND k.seen_at > clock_timestamp() - %(known_for)s) THEN 'pair'
              ELSE 'network' END AS kind
    FROM named)
SELECT 'account' AS kind, %(account)s::bytea AS key, subject FROM origin
 WHERE kind = 'network' AND NOT EXISTS (
   SELECT FROM tenants_attemptcount o
    WHERE o.kind = 'network' AND o.key = %(network)s AND o.attempts >= %(most)s
      AND o.since = date_bin(%(span)s, clock_timestamp(), 'epoch'))
UNION ALL
SELECT kind, CASE kind WHEN 'device' THEN %(device)s WHEN 'pair' THEN %(pair)s
                       ELSE %(network)s END::bytea,
       CASE kind WHEN 'network' THEN %(label)s ELSE subject END
  FROM origin
"""
"""A network that is refused anyway adds no row for each name that it tries."""
_KEYS_OF_NETWORK: Final = (
    "SELECT 'token' AS kind, %(network)s::bytea AS key, %(label)s::text AS subject"
)
_KEYS_OF_LINK: Final = """
SELECT 'link' AS kind, %(network)s::bytea AS key, %(label)s::text AS subject
UNION ALL
SELECT 'link_to', %(address)s::bytea, ''
"""
_KEYS_OF_INVITATION: Final = """
SELECT 'invited' AS kind, %(address)s::bytea AS key, '' AS subject
UNION ALL
SELECT 'inviter', %(account)s::bytea, ''
"""
_KEYS_OF_FORGED: Final = (
    "SELECT 'forged' AS kind, %(pair)s::bytea AS key, %(label)s::text AS subject"
)
_TAKE_OFF: Final = """
UPDATE tenants_attemptcount c SET attempts = c.attempts - 1
  FROM (SELECT id FROM tenants_attemptcount WHERE id = ANY(%(ids)s)
         ORDER BY kind FOR NO KEY UPDATE) AS counted
 WHERE c.id = counted.id
"""
_KNOW: Final = """
INSERT INTO tenants_knownnetwork (user_id, network, seen_at)
VALUES (%(user)s, %(network)s, clock_timestamp())
    ON CONFLICT (user_id, network) DO UPDATE SET seen_at = excluded.seen_at
"""
_PURGE: Final = """
DELETE FROM tenants_attemptcount WHERE id IN (
  SELECT id FROM tenants_attemptcount WHERE since <= %(before)s
   ORDER BY since LIMIT %(most)s FOR UPDATE SKIP LOCKED)
RETURNING kind, subject, attempts, since
"""
_PURGE_KNOWN: Final = """
DELETE FROM tenants_knownnetwork WHERE id IN (
  SELECT id FROM tenants_knownnetwork WHERE seen_at <= %(before)s
   ORDER BY seen_at LIMIT %(most)s FOR UPDATE SKIP LOCKED)
"""


@dataclass(frozen=True)
class Count:
    """What one key's attempts add up to in this span."""

    id: int
    kind: str
    subject: str
    attempts: int
    seconds_left: int

    @property
    def is_network(self) -> bool:
        """Whether a network is counted, and not an account."""
        return self.kind in _NETWORK_KINDS

    @property
    def noun(self) -> str:
        """What is attempted, as its audit entries name it."""
        return _NOUNS.get(AttemptKind(self.kind), "sign_in")


_NETWORK_KINDS: Final = frozenset(
    {AttemptKind.NETWORK, AttemptKind.TOKEN, AttemptKind.LINK, AttemptKind.FORGED}
)
_NOUNS: Final = {
    AttemptKind.TOKEN: "token_guess",
    AttemptKind.LINK: "password_link",
    AttemptKind.LINK_TO: "password_link",
    AttemptKind.FORGED: "link",
}


@dataclass(frozen=True)
class Attempt:
    """One attempt to sign in, counted before its password is looked at."""

    network: bytes
    label: str
    counts: tuple[Count, ...]


def begin_attempt(
    *, username: str, network: str, device: Device = NO_DEVICE, actor: Actor, at: datetime
) -> Attempt:
    """Count an attempt to sign in; one statement, and an audit entry for a span's first refusal.

    Args:
        username: As typed; the same happens whether it exists or not.
        network: Where it comes from, as `client_network` returns it.
        device: The browser, where its cookie is ours.
        actor: The service itself, since no caller is proven yet.
        at: When, UTC.

    Raises:
        TooManyAttemptsError: The password must not be looked at.
    """
    origin = _digest(network)
    parameters = {
        "account": _digest(username),
        "network": origin,
        "pair": _digest(f"{network}\0{username}"),
        "device": _digest(f"{device.number}\0{device.user_id}"),
        "device_of": device.user_id,
        "proof": device.proof,
        "proof_length": PROOF_LENGTH,
        "most": ATTEMPTS_MAX,
        "label": network,
        "username": username,
        "known_for": KNOWN_FOR,
    }
    counts = _count(_KEYS_OF_SIGN_IN, parameters)
    _refuse_beyond(ATTEMPTS_MAX, counts, network=network, actor=actor, at=at)
    return Attempt(network=origin, label=network, counts=counts)


def fail_attempt(*, attempt: Attempt, actor: Actor, at: datetime) -> None:
    """Audit the first failure from a network, under the account's id where there is one.

    As many entries are written for an unknown name, so that the time of an answer says nothing.
    """
    origin = next(count for count in attempt.counts if count.kind != AttemptKind.ACCOUNT)
    if origin.attempts == 1:
        named = next((count for count in attempt.counts if not count.is_network), origin)
        _note("fail", named, network=attempt.label, actor=actor, at=at)


def excuse_attempt(*, attempt: Attempt) -> None:
    """Take an attempt with the right password off the counts of failures."""
    with connection.cursor() as cursor:
        cursor.execute(_TAKE_OFF, {"ids": [count.id for count in attempt.counts]})


@transaction.atomic
def succeed_attempt(
    *, attempt: Attempt, user: AbstractBaseUser, actor: Actor, at: datetime
) -> None:
    """Audit a sign-in, store its network as known, and subtract it from the failure counts."""
    excuse_attempt(attempt=attempt)
    with connection.cursor() as cursor:
        cursor.execute(_KNOW, {"user": user.pk, "network": attempt.network})
    _record(attempt, user, "succeed", actor=actor, at=at)


@transaction.atomic
def deny_attempt(*, attempt: Attempt, user: AbstractBaseUser, actor: Actor, at: datetime) -> None:
    """Audit a right password of a person without access to the page; not a failed attempt."""
    excuse_attempt(attempt=attempt)
    _record(attempt, user, "deny", actor=actor, at=at)


def _record(
    attempt: Attempt, user: AbstractBaseUser, verb: str, *, actor: Actor, at: datetime
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"tenants:sign_in:{verb}",
        object_kind="user",
        object_id=user.pk,
        facts={"network": attempt.label},
    )


def count_wrong_token(*, network: str, actor: Actor, at: datetime) -> None:
    """Count a request with a wrong API token; right ones are never refused for it.

    A token has 256 random bits and its check costs one digest, so that refusing right ones too
    would protect nothing, and one program could stop all others of its network.

    Raises:
        TooManyAttemptsError: The network sent too many.
    """
    counts = _count(_KEYS_OF_NETWORK, {"network": _digest(network), "label": network})
    _refuse_beyond(TOKEN_ATTEMPTS_MAX, counts, network=network, actor=actor, at=at)


def count_link_request(*, email: str, network: str, actor: Actor, at: datetime) -> None:
    """Count a request for a link to set a password, alike whether the address has an account.

    Args:
        email: As typed.
        network: Where the request comes from.
        actor: The service itself, since no caller is proven.
        at: When, UTC.

    Raises:
        TooManyAttemptsError: Too many requests came from this network, or for this address.
    """
    parameters = {
        "network": _digest(network),
        "label": network,
        "address": _digest(email.lower()),
    }
    counts = _count(_KEYS_OF_LINK, parameters)
    _refuse_beyond(ATTEMPTS_MAX, counts, network=network, actor=actor, at=at)


def count_forged_link(*, link: str, network: str, actor: Actor, at: datetime) -> None:
    """Count a link that was never sent; the first of a network and kind in a span is audited.

    The pages need no sign-in, so that one entry for each link would let anyone fill the trail.

    Args:
        link: Which kind of link it says it is, such as "invitation".
        network: Where it comes from.
        actor: The service itself, which answers the link.
        at: When, UTC.
    """
    pair = _digest(f"{network}\0{link}")
    (count,) = _count(_KEYS_OF_FORGED, {"pair": pair, "label": network})
    if count.attempts == 1:
        _note("refuse", count, network=network, actor=actor, at=at, link=link)


def count_invitation(*, email: str, actor: Actor) -> None:
    """Count an invitation in the transaction that creates it: a refused one sends no mail.

    Args:
        email: The invited address; all callers share its count.
        actor: The caller.

    Raises:
        TooManyInvitationsError: The address was invited too often, or the actor invited too many.
    """
    keys = {"address": _digest(email.lower()), "account": _digest(actor.id)}
    most = {AttemptKind.INVITED: INVITED_MAX, AttemptKind.INVITER: INVITATIONS_MAX}
    counts = _count(_KEYS_OF_INVITATION, keys)
    beyond = [count for count in counts if count.attempts > most[AttemptKind(count.kind)]]
    if beyond:
        seconds = max(count.seconds_left for count in beyond)
        raise TooManyInvitationsError(
            "Too many invitations went to this address, or out from you; "
            f"wait {_minutes(seconds)}.",
            field="email",
            facts={"email": email, "retry_after_seconds": seconds},
        )


def purge_attempts(
    *, has_time: Callable[[], bool] = lambda: True, actor: Actor, at: datetime
) -> int:
    """Purge expired attempt counts and unused networks; return how many rows.

    A count leaves one audit entry with its number, unless its only failure already has one.

    Args:
        has_time: Called before each batch; whether another may begin.
        actor: A system actor.
        at: When, UTC.

    Raises:
        ValueError: The actor is not the service itself.
    """
    require_service(actor=actor)

    def purge_counts(most: int) -> int:
        with connection.cursor() as cursor:
            cursor.execute(_PURGE, {"before": at - SPAN, "most": most})
            rows = cursor.fetchall()
        for kind, subject, attempts, since in rows:
            if subject and attempts > (kind != AttemptKind.ACCOUNT):
                count = Count(0, kind, subject, attempts, 0)
                _note("count", count, actor=actor, at=at, since=since.isoformat())
        return len(rows)

    def purge_networks(most: int) -> int:
        with connection.cursor() as cursor:
            cursor.execute(_PURGE_KNOWN, {"before": at - KNOWN_FOR, "most": most})
            return int(cursor.rowcount)

    return in_batches(purge_counts, has_time=has_time) + in_batches(
        purge_networks, has_time=has_time
    )


def _count(keys: str, parameters: dict[str, Any]) -> tuple[Count, ...]:
    values: dict[str, Any] = {**parameters, "span": SPAN}
    with connection.cursor() as cursor:
        cursor.execute(_COUNT.format(keys=keys), values)
        return tuple(Count(*row) for row in cursor.fetchall())


def _refuse_beyond(
    most: int, counts: tuple[Count, ...], *, network: str, actor: Actor, at: datetime
) -> None:
    beyond = [count for count in counts if count.attempts > most]
    if not beyond:
        return
    for count in beyond:
        if count.attempts == most + 1:
            _note("refuse", count, network=network, actor=actor, at=at)
    seconds = max(count.seconds_left for count in beyond)
    raise TooManyAttemptsError(
        f"Too many attempts failed; the next is looked at in {_minutes(seconds)}.",
        facts={"retry_after_seconds": seconds},
    )


def _minutes(seconds: int) -> str:
    """Return a wait as people read it, rounded up."""
    minutes = max(1, -(-seconds // 60))
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


@transaction.atomic
def _note(
    verb: str, count: Count, *, network: str = "", actor: Actor, at: datetime, **facts: str
) -> None:
    """Audit attempts under the account, or under the network where no such account exists."""
    is_user = not count.is_network and count.subject != ""
    record(
        actor=actor,
        at=at,
        action=f"tenants:{count.noun}:{verb}",
        object_kind="user" if is_user else "network",
        object_id=count.subject or network,
        facts={
            **facts,
            **({"network": network} if network else {}),
            "attempts": count.attempts,
        },
    )


def _digest(text: str) -> bytes:
    return salted_hmac(__name__, text, algorithm="sha256").digest()
