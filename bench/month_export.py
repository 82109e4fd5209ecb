"""A month of 1,000 documents as one zip, and that zip held against the ledger.

PDFs are stored before, as once each document was sent; a first rendering is measured apart.
"""

import resource
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.billing_stage import MONTH_START, execute, make_stage, meter
from bench.harness import (
    Bound,
    Figure,
    against_plain_work,
    invariant,
    is_smoke,
    ledger_database,
    measured,
    measurement,
)

ORGANIZATIONS = 50 if is_smoke() else 1_000
HOURS = 24
PODS = 4 * ORGANIZATIONS
"""An hour: 96,000 charges in the month."""
RENDERED = 10
AT = MONTH_START + timedelta(hours=745)
BUNDLE_MAX, RECONCILE_MAX = 96, 100
"""Against the plain work."""
GROWTH_MAX_MIB = 64
KIB = 1024
# Documents of one line have PDFs of one size.
_STORE = """
INSERT INTO billing_documentfile (id, document_id, kind, content, sha256, rendered_at)
SELECT gen_random_uuid(), i.id, f.kind, f.content, f.sha256, f.rendered_at
  FROM billing_invoice i CROSS JOIN (SELECT * FROM billing_documentfile LIMIT 1) f
 WHERE i.state = 'final'
    ON CONFLICT DO NOTHING
"""


def run() -> Iterator[Figure]:
    """Yield the figures of an export."""
    with ledger_database():
        yield from _measure()


def _measure() -> Iterator[Figure]:
    from billing.models import Charge, Invoice  # noqa: PLC0415 - Django is set up by now.
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415

    stage = make_stage(ORGANIZATIONS, bound_hours=HOURS)
    meter(stage, begin=MONTH_START, hours=HOURS, pods=PODS)
    while accrue_pending(at=AT, actor=ACTOR)[0]:
        pass
    _finalize()
    yield measurement("month_export.charges", Charge.objects.count(), "charges")
    yield from _render()
    execute(_STORE)
    before = _peak_mib()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "month.zip"
        with measured() as exported, path.open("wb") as file:
            file.writelines(_bundle(stage))
        size = path.stat().st_size
        growth = _peak_mib() - before
        with measured() as reconciled:
            found = _differences(path)
    documents = Invoice.objects.filter(state="final").count()
    yield invariant("month_export.documents", documents, "documents", ORGANIZATIONS)
    yield from against_plain_work("month_export.bundle", exported.seconds, BUNDLE_MAX)
    yield measurement("month_export.size", Decimal(size) / KIB / KIB, "MiB")
    yield invariant("month_export.memory_growth", growth, "MiB", GROWTH_MAX_MIB, Bound.AT_MOST)
    yield from against_plain_work("month_export.reconcile", reconciled.seconds, RECONCILE_MAX)
    yield invariant("month_export.differences", len(found), "", 0)


def _finalize() -> None:
    """Draft and finalize every month, as two people."""
    from billing.adapters.terms import invoice_terms  # noqa: PLC0415 - Django is set up by now.
    from billing.models import Invoice  # noqa: PLC0415
    from billing.services.finalizing import finalize_invoice  # noqa: PLC0415
    from billing.tasks import settle_periods  # noqa: PLC0415
    from tenants.domain.actors import Actor, ActorKind  # noqa: PLC0415

    first, second = (Actor(ActorKind.PERSON, id=name, label=name) for name in ("a", "b"))
    settle_periods(at=AT, actor=first)
    for invoice_id in list(Invoice.objects.values_list("pk", flat=True)):
        finalize_invoice(invoice_id=invoice_id, actor=second, at=AT, terms=invoice_terms())


def _render() -> Iterator[Figure]:
    from billing.adapters.documents import render_pdf  # noqa: PLC0415 - Django is set up by now.
    from billing.models import Invoice  # noqa: PLC0415
    from billing.models.invoice import FileKind  # noqa: PLC0415
    from billing.services.finalizing import file_of  # noqa: PLC0415

    chosen = list(Invoice.objects.filter(state="final")[:RENDERED])
    with measured() as rendered:
        for document in chosen:
            file_of(document, kind=FileKind.PDF, render=render_pdf, at=AT)
    yield measurement("month_export.first_pdf", rendered.seconds / len(chosen), "s")


def _bundle(stage: dict[str, Any]) -> Iterator[bytes]:
    from billing.adapters.month_bundle import BUNDLE_MAKERS  # noqa: PLC0415
    from billing.domain.period import Month  # noqa: PLC0415 - Django is set up by now.
    from billing.selectors.exports.focus import FocusScope  # noqa: PLC0415
    from billing.services.exports.month import stream_month  # noqa: PLC0415
    from tenants.selectors.report_database import ReportDatabase  # noqa: PLC0415

    return stream_month(
        month=Month.parse("2026-10"),
        scope=FocusScope(stage["organizations"], issuer="GPU Platform"),
        annexed=(),
        with_journal=True,
        makers=BUNDLE_MAKERS,
        database=ReportDatabase.primary(at=AT),
        at=AT,
    )


def _differences(path: Path) -> list[str]:
    from billing.adapters.month_bundle import read_bundle  # noqa: PLC0415
    from billing.domain.exports.bundle import differences  # noqa: PLC0415
    from billing.domain.period import Month  # noqa: PLC0415 - Django is set up by now.
    from billing.selectors.exports.tables import ids_of, ledger_facts  # noqa: PLC0415

    bundle = read_bundle(path)
    ledger = ledger_facts(Month.parse(bundle.month), ids_of(bundle.organizations))
    return [*bundle.problems, *differences(bundle.facts, ledger)]


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // KIB
