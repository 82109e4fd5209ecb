"""Scheduled exports: what is delivered where, when a run is due, and what follows a failure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import parse_qs, urlsplit

from billing.domain.exports.bundle import CHARGES, DOCUMENTS, JOURNAL, LINES, bundle_name
from billing.domain.exports.focus import NEWEST, VERSIONS, FocusDataset, FocusFile, FocusFormat
from billing.domain.period import Month
from tenants.domain.errors import FieldProblem
from tenants.domain.notifications import EndpointKind
from tenants.domain.notifications import address_problems as receiver_problems

BUNDLE: Final = "month"
TABLES: Final[Mapping[str, str]] = {
    "documents": DOCUMENTS,
    "lines": LINES,
    "charges": CHARGES,
    "journal": JOURNAL,
}
"""Contents that are one table of the bundle, with their path in it."""
DAY_MAX: Final = 28
"""Every month has it."""
HOUR_MAX: Final = 23
SECRET_PREFIX: Final = "EXPORT_SECRET_"  # noqa: S105 - The start of a variable's name.
ATTEMPTS_MAX: Final = 8
WAITS: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 180, 360, 720))
"""After a failed attempt: a day in all, then a person has to look."""
CLOSE_WAIT: Final = timedelta(hours=1)
"""Until it is looked again whether the months are closed."""
LEASE: Final = timedelta(minutes=5)
"""How long a run is left alone; its worker renews it every minute."""
MONTHS_BACK_MAX: Final = 12
"""Missed while the service was away; an older month is exported by hand."""
_SECRET: Final = re.compile(rf"env:{SECRET_PREFIX}[A-Z0-9_]{{1,100}}", re.ASCII)
_HOST_KEY: Final = re.compile(
    r"(?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]{40,2000}={0,2}",
    re.ASCII,
)
_BUCKET: Final = re.compile(r"/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[!-~]*)?", re.ASCII)
_VISIBLE: Final = re.compile(r"[!-~]{1,500}", re.ASCII)


class ExportTarget(StrEnum):
    """Where files go."""

    MAIL = "mail"
    BUCKET = "bucket"
    SFTP = "sftp"
    WEBHOOK = "webhook"


class ExportRunState(StrEnum):
    """How far a run has come: its files are made, then delivered one after another."""

    PENDING = "pending"
    DELIVERING = "delivering"
    DONE = "done"
    FAILED = "failed"


OPEN_STATES: Final = (ExportRunState.PENDING.value, ExportRunState.DELIVERING.value)


def _contents() -> Iterator[str]:
    yield BUNDLE
    yield from TABLES
    for version in VERSIONS:
        for dataset in FocusDataset:
            if dataset is FocusDataset.COST_AND_USAGE or version == NEWEST:
                yield from (f"focus-{version}-{dataset}-{form}" for form in FocusFormat)


CONTENTS: Final = tuple(_contents())
"""What can be exported."""


def content_label(text: str) -> str:
    """Return a content as people read it, such as "FOCUS 1.4 CostAndUsage, Parquet"."""
    if text == BUNDLE:
        return "Month, as one zip of all files"
    if text in TABLES:
        return f"{text.capitalize()}, {TABLES[text].rpartition('.')[2].upper()}"
    _, version, dataset, form = text.split("-")
    return f"FOCUS {version} {dataset}, {'CSV' if form == FocusFormat.CSV else 'Parquet'}"


@dataclass(frozen=True)
class ExportContent:
    """One content of a run, and the file it is delivered as.

    Attributes:
        focus: Which dataset it is; None for another content.
        table: The path in the bundle of the table that it is; "" for another content.
    """

    file_name: str
    focus: FocusFile | None = None
    table: str = ""


def content_of(text: str, *, month: Month, organization: str, number: int) -> ExportContent:
    """Return a content of a run.

    Args:
        text: One of `CONTENTS`.
        month: The exported month.
        organization: Its slug; "" for all.
        number: Of the run among those of the month; a later one never overwrites files of another.
    """
    if text == BUNDLE:
        return ExportContent(_numbered(bundle_name(month, organization), number))
    prefix = f"{organization}-" if organization else ""
    if text in TABLES:
        stem, _, suffix = TABLES[text].partition(".")
        name = f"{prefix}{stem}-{month.label}.{suffix}"
        return ExportContent(_numbered(name, number), table=TABLES[text])
    _, version, dataset, form = text.split("-")
    focus = FocusFile.of(month=month.label, dataset=dataset, version=version, format_name=form)
    return ExportContent(_numbered(f"{prefix}{focus.name}", number), focus=focus)


def _numbered(name: str, number: int) -> str:
    if number == 1:
        return name
    stem, _, suffix = name.rpartition(".")
    return f"{stem}-run{number}.{suffix}"


def due_at(month: Month, *, day: int, hour: int) -> datetime:
    """Return when a month is exported: on a day of the next one, at an hour of UTC."""
    following = month.shift(1)
    return datetime(following.year, following.month, day, hour, tzinfo=UTC)


def due_months(*, day: int, hour: int, since: datetime, at: datetime) -> list[Month]:
    """Return the months whose export became due after a time, oldest first.

    Args:
        day: Of the month after.
        hour: In UTC.
        since: When the schedule was made.
        at: Now.
    """
    current = Month(at.year, at.month)
    months = (current.shift(-back) for back in range(MONTHS_BACK_MAX, 0, -1))
    return [month for month in months if since <= due_at(month, day=day, hour=hour) <= at]


def wait_after(attempts: int) -> timedelta | None:
    """Return the wait after a number of failed attempts; None when the run has failed."""
    return None if attempts >= ATTEMPTS_MAX else WAITS[attempts - 1]


def content_problems(contents: Sequence[str], *, is_of_all: bool) -> tuple[FieldProblem, ...]:
    """Return what is wrong with the contents of a schedule.

    Args:
        contents: Of `CONTENTS`.
        is_of_all: Whether it is of all organizations; the journal is never of one.
    """
    if not contents or len(set(contents)) != len(contents):
        message = f"Name one or more, each once, of: {', '.join(CONTENTS)}."
        return (FieldProblem("contents", "not_a_list", message),)
    unknown = [one for one in contents if one not in CONTENTS]
    if unknown:
        message = f"{unknown[0]} cannot be exported. Use: {', '.join(CONTENTS)}."
        return (FieldProblem("contents", "content_unknown", message),)
    if "journal" in contents and not is_of_all:
        message = "The journal is exported of all organizations only."
        return (FieldProblem("contents", "journal_of_all", message),)
    return ()


def time_problems(*, day: int, hour: int) -> tuple[FieldProblem, ...]:
    """Return what is wrong with the time of a schedule."""
    problems = []
    if not 1 <= day <= DAY_MAX:
        message = f"Use a day from 1 to {DAY_MAX}."
        problems.append(FieldProblem("day", "not_a_day", message))
    if not 0 <= hour <= HOUR_MAX:
        message = f"Use an hour from 0 to {HOUR_MAX}."
        problems.append(FieldProblem("hour", "not_an_hour", message))
    return tuple(problems)


def target_problems(
    target: str, address: str, *, clear_text_hosts: Sequence[str]
) -> tuple[FieldProblem, ...]:
    """Return what is wrong with the address of a target.

    Args:
        target: Of `ExportTarget`.
        address: A mail address, or a URL.
        clear_text_hosts: Hosts that may be called over http, set by the operator.
    """
    if target in {ExportTarget.MAIL, ExportTarget.WEBHOOK}:
        kind = EndpointKind(target)
        return receiver_problems(kind, address, clear_text_hosts=clear_text_hosts)
    if target == ExportTarget.BUCKET:
        if _is_bucket(address, clear_text_hosts=clear_text_hosts):
            return ()
        message = (
            "Use the URL of a bucket, with a folder and a region as needed: "
            "https://s3.example.com/bucket/folder?region=eu-central-1."
        )
        return (FieldProblem("address", "not_a_bucket_url", message),)
    if _is_sftp(address):
        return ()
    message = "Use sftp://user@host/folder, without password."
    return (FieldProblem("address", "not_an_sftp_url", message),)


def secret_problems(target: str, *, reference: str, host_key: str) -> tuple[FieldProblem, ...]:
    """Return what is wrong with the name of a secret and with the key of an SFTP server."""
    problems = []
    if target == ExportTarget.MAIL and reference:
        message = "Leave it out: a mail needs no secret."
        problems.append(FieldProblem("secret_reference", "not_for_mail", message))
    if target != ExportTarget.MAIL and not _SECRET.fullmatch(reference):
        message = f"Name the variable that holds the secret: env:{SECRET_PREFIX}<NAME>."
        problems.append(FieldProblem("secret_reference", "not_a_reference", message))
    if target == ExportTarget.SFTP and not _HOST_KEY.fullmatch(host_key):
        message = (
            "Give the server's public key as one line, such as ssh-ed25519 AAAA…: "
            "`ssh-keyscan -t ed25519 <host>` prints it after the host."
        )
        problems.append(FieldProblem("host_key", "not_a_host_key", message))
    if target != ExportTarget.SFTP and host_key:
        message = "Leave it out: only an SFTP server has one."
        problems.append(FieldProblem("host_key", "not_for_this_target", message))
    return tuple(problems)


def _is_bucket(address: str, *, clear_text_hosts: Sequence[str]) -> bool:
    base, _, query = address.partition("?")
    receiver = receiver_problems(EndpointKind.WEBHOOK, base, clear_text_hosts=clear_text_hosts)
    if receiver or not _BUCKET.fullmatch(urlsplit(base).path):
        return False
    regions = parse_qs(query, strict_parsing=bool(query))
    return set(regions) <= {"region"} and all(len(one) == 1 for one in regions.values())


def _is_sftp(address: str) -> bool:
    if not _VISIBLE.fullmatch(address) or "\\" in address:
        return False
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    is_plain = not (parts.password or parts.query or "#" in address)
    return parts.scheme == "sftp" and bool(host and parts.username) and port != 0 and is_plain


_REMEDIES: Final[Mapping[str, str]] = {
    "address_forbidden": "Use a public address, or let the operator allow its range in "
    "WEBHOOK_ALLOWED_NETWORKS.",
    "address_invalid": "Make a schedule with an address that mail can be sent to.",
    "bad_answer": "Use the address of a server that speaks HTTP.",
    "bucket_refused": "Check that the bucket is there, and that the key may write to it.",
    "host_key_changed": "Check with the server's operator that its key has changed, and make a "
    "schedule with the new one.",
    "login_refused": "Check user and secret with the server's operator.",
    "mail_missing": "Set EMAIL_URL, and restart the workers.",
    "mail_refused": "Check the mail server of EMAIL_URL, and that it takes mail to this address.",
    "not_https": "Use an https address, or let the operator allow its host in "
    "WEBHOOK_CLEAR_TEXT_HOSTS.",
    "secret_invalid": "Correct the variable that secret_reference names, and restart the workers.",
    "secret_missing": "Set the variable that secret_reference names, and restart the workers.",
    "sftp_refused": "Check that the folder is there, that the user may write to it, and that it "
    "has room.",
    "time_exceeded": "Let an operator run `manage.py tick`, which has no time limit.",
    "timeout": "Check that the server answers.",
    "too_large": "A mail carries at most 10 MiB: use a bucket, SFTP or a webhook.",
    "unexpected": "Look for billing.export.crashed in the log of the worker.",
    "unreachable": "Check that the server runs and can be reached from the workers.",
}


def remedy_of(reason: str) -> str:
    """Return what to do about a failure; "" without one."""
    if reason.startswith("status_"):
        return "Let the receiver answer with a 2xx status."
    return _REMEDIES.get(reason, "")
