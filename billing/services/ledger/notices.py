"""Notifications of billing: final documents, and months that cannot be billed."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from billing.domain.documents.invoicing import InvoiceKind
from billing.domain.documents.mail_text import issued_text
from billing.domain.month_board import MonthFacts, MonthStep, shortfall_texts, step_of
from billing.models import Invoice
from billing.selectors.months import labels_over, month_board
from tenants.domain.identity.roles import Role
from tenants.models import Notification
from tenants.models.organization import Language
from tenants.services.notifications.outbox import OrganizationNews, notify, notify_organizations

BLOCKED_AFTER: Final = timedelta(hours=6)
"""After the end of a month: until then the last hours are sealed and charged by themselves."""
LISTED_MAX: Final = 50
"""Months of one mail; all are on the page it leads to."""


def notification_key(document: Invoice) -> str:
    """Return the key of the notification about a final document."""
    return f"document:{document.pk}"


def notify_issued(run: Sequence[Invoice], *, at: datetime) -> None:
    """Notify the administrators and recipients of documents that have become final.

    Args:
        run: Final documents of one organization.
        at: When.
    """
    alike: defaultdict[str, list[Invoice]] = defaultdict(list)
    for document in run:
        alike[document.kind].append(document)
    for kind, documents in alike.items():
        notify_organizations(
            event=f"billing:{InvoiceKind(kind).value}:finalized",
            news=[_issued(document) for document in documents],
            role=Role.ORGANIZATION_ADMIN,
            at=at,
        )


def report_blocked_months(*, at: datetime) -> int:
    """Notify finance of months that are over and cannot be billed; return of how many.

    A month is reported once a day as long as an organization's is blocked.

    Args:
        at: When.
    """
    reported = 0
    for label in labels_over(ended_by=at - BLOCKED_AFTER):
        key = f"blocked:{label}:{at:%Y-%m-%d}"
        if Notification.objects.filter(key=key).exists():
            continue
        board = month_board(label, ended_by=at - BLOCKED_AFTER)
        blocked = [month for month in board if step_of(month, at=at) is MonthStep.RESOLVE]
        if blocked:
            _report(label, blocked, key=key, at=at)
            reported += 1
    return reported


def _issued(document: Invoice) -> OrganizationNews:
    texts = {
        language: issued_text(
            document.document,
            payable=document.payable,
            amount_due=document.amount_due,
            purchase_order=document.purchase_order,
            language=language,
        )
        for language in Language.values
    }
    subject, text = texts.pop(Language.ENGLISH)
    recipient = document.recipient
    return OrganizationNews(
        organization_id=document.organization_id,
        subject=subject,
        text=text,
        facts={
            "document": str(document.pk),
            "reference": document.reference,
            "kind": document.kind,
            "month": document.document["period"]["label"],
            "payable": str(document.payable),
            "currency": document.currency,
            "due_on": document.document.get("due_on"),
            "content_sha256": document.content_sha256,
        },
        key=notification_key(document),
        addresses=(recipient.email,) if recipient is not None and recipient.email else (),
        translations=texts,
        language=document.document.get("language", Language.ENGLISH.value),
        document_id=document.pk,
    )


def _report(label: str, blocked: Sequence[MonthFacts], *, key: str, at: datetime) -> None:
    lines = [
        f"{month.organization} ({month.slug}): {'; '.join(shortfall_texts(month).values())}."
        for month in blocked[:LISTED_MAX]
    ]
    if len(blocked) > LISTED_MAX:
        lines.append(f"And {len(blocked) - LISTED_MAX} more.")
    count = f"{len(blocked)} organization{'s' if len(blocked) > 1 else ''}"
    with transaction.atomic():
        notify(
            event="billing:period:blocked",
            organization_id=None,
            subject=f"{label} cannot be billed for {count}",
            text="\n".join(
                [
                    f"{label} is over. Before its invoices can be made, this has to be settled:",
                    "",
                    *lines,
                    "",
                    "Month close shows each cause, and which role may settle it.",
                ]
            ),
            facts={
                "month": label,
                "organizations": [
                    {"organization": month.slug, "reasons": list(shortfall_texts(month))}
                    for month in blocked
                ],
            },
            roles=[Role.FINANCE_ADMIN],
            key=key,
            at=at,
        )
