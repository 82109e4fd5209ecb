"""A database with sealed hours and an invoice, and what `verify` says once it was changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from unittest.mock import patch

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from billing.models import BillingPeriod, Price, PriceBook, PriceBookAssignment
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from metering.models import CapacityRecord, MeteringException, MeteringWindow
from metering.services.collection.sealing import seal_window
from tenants.services.audit import record
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    TICK,
    Use,
    accrue_everything,
    add_usage,
    make_ledger,
    make_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_terms
from tests.support.builders import AT, MONTH_START
from tests.support.cast import make_cast


def make_world() -> None:
    """Two sealed hours with usage, capacity and an exception, and the invoice of their month."""
    cast = make_cast()
    ledger = make_ledger("globex", bound_hours=2)
    make_terms(ledger.organization, ledger.book)
    window, following = make_window(ledger.cluster), make_window(ledger.cluster, MONTH_START + HOUR)
    add_usage(window, [Use(ledger.llm), Use(ledger.vision, 1_800)])
    add_usage(following, [Use(ledger.llm)])
    CapacityRecord.objects.create(
        window=window,
        window_start=window.start_at,
        cluster=ledger.cluster,
        node="node-1",
        resource="nvidia_com_gpu",
        allocatable_units=2,
        capacity_unit_seconds=7_200,
        billed_unit_seconds=5_400,
        held_unit_seconds=0,
        idle_unit_seconds=1_800,
    )
    MeteringException.objects.create(
        cluster=ledger.cluster,
        window=window,
        window_start=window.start_at,
        kind="unbound_namespace",
        subject="pod",
        summary="",
        remedy="",
        state="resolved",
        resolution="Seen.",
        resolved_by=cast.frank,
        created_at=AT,
    )
    MeteringWindow.objects.update(state="reconciled")
    for sealed in (window, following):
        seal_window(window_id=sealed.pk, actor=TICK, at=AT)
    for price in Price.objects.select_related("price_book"):
        note_price(price)
    for assignment in PriceBookAssignment.objects.select_related("price_book"):
        note_assignment(assignment)
    accrue_everything()
    period = BillingPeriod.objects.get(label="2026-10", organization=ledger.organization)
    draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)


@transaction.atomic
def note_price(price: Price) -> None:
    """Leave the audit entry of a price that a builder has made."""
    facts = {
        "price_book": price.price_book.slug,
        "size": price.size,
        "price_group": price.price_group,
        "unit_price": str(price.unit_price),
        "valid_from": price.valid.lower.isoformat(),
    }
    record(
        actor=DORA,
        at=AT,
        action="billing:price:set",
        object_kind="price",
        object_id=price.pk,
        facts=facts,
    )


@transaction.atomic
def note_assignment(assignment: PriceBookAssignment) -> None:
    """Leave the audit entry of an assignment that a builder has made."""
    record(
        actor=DORA,
        at=AT,
        action="billing:price_book:assign",
        object_kind="price_book_assignment",
        object_id=assignment.pk,
        organization_id=assignment.organization_id,
        facts={
            "price_book": PriceBook.objects.get(assignments=assignment).slug,
            "valid_from": assignment.valid.lower.isoformat(),
        },
    )


def verify(*arguments: str) -> str:
    """Return what `manage.py verify` writes about differences, "" when there are none.

    Audit entries count at once, not after an hour.
    """
    errors = StringIO()
    try:
        with patch("tenants.selectors.verification.SETTLED_AFTER", timedelta()):
            call_command("verify", *arguments, stdout=StringIO(), stderr=errors)
    except CommandError:
        assert errors.getvalue()
    return errors.getvalue()


@contextmanager
def unguarded(owner: psycopg.Connection) -> Iterator[None]:
    """Replace the bodies of all trigger functions within, and put them back after.

    What was switched off or replaced by the statements themselves stays so.
    """
    functions = owner.execute(
        "SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid) FROM pg_proc p"
        " WHERE p.pronamespace = 'public'::regnamespace AND p.prorettype = 'trigger'::regtype"
        "   AND pg_get_userbyid(p.proowner) = current_user"
    ).fetchall()
    emptied = (
        f"CREATE OR REPLACE FUNCTION {name} RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN RETURN CASE TG_OP WHEN ''DELETE'' THEN OLD ELSE NEW END; END'"
        for name, _ in functions
    )
    owner.execute(";".join(emptied).encode())
    changed = bodies(owner)
    yield
    left = bodies(owner)
    restored = (text for name, text in functions if left[name] == changed[name])
    owner.execute(";".join(restored).encode())


def bodies(owner: psycopg.Connection) -> dict[str, str]:
    """Return the body of each of our functions."""
    rows = owner.execute(
        "SELECT oid::regprocedure::text, prosrc FROM pg_proc"
        " WHERE pronamespace = 'public'::regnamespace"
    ).fetchall()
    return dict(rows)


def refuses(statement: str, refusal: str) -> None:
    """Run a statement as the runtime role, and expect the database to refuse it."""
    with (
        pytest.raises(DatabaseError, match=refusal),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement)
