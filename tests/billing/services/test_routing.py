"""Several documents of a run: one for each issuer, recipient and purchase order."""

from datetime import date
from decimal import Decimal

import pytest
from django.db import IntegrityError, connection, transaction

from billing.domain.documents.errors import IssuerExistsError, RouteInvalidError
from billing.domain.documents.taxes import TaxTerms
from billing.domain.errors import DraftStaleError, NotCreditableError
from billing.models import (
    BillingPeriod,
    Charge,
    Invoice,
    InvoiceLine,
    Issuer,
    Recipient,
    RunRoute,
)
from billing.selectors.documents.membership import charges_of_invoice, with_line
from billing.selectors.verification import check_invoices, check_lines, check_numbers
from billing.services import finalizing
from billing.services.closing import reopen_period, review_period
from billing.services.crediting import draft_credit, void_invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import discard_draft, draft_invoice
from billing.services.pricing.tiers import publish_tiers
from billing.services.routing import (
    change_issuer,
    change_recipient,
    create_issuer,
    create_recipient,
    freeze_routes,
    set_route,
)
from billing.services.taxes import set_tax_rate
from tenants.domain.errors import InvalidInputError
from tenants.models import AuditEntry
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import DORA, ERIC, TICK, Ledger, month_of_use
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import AT, make_organization
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
CHECKS = (check_invoices, check_lines, check_numbers)


@shared_rows
def ledger() -> Ledger:
    """October with 2.00 of llm and 1.00 of vision."""
    return month_of_use([("llm", 3600), ("vision", 1800)])


def make_issuer(slug: str = "labs", **fields: object) -> Issuer:
    usual: dict[str, object] = {
        "name": "Labs Ltd",
        "series": "LB",
        "credit_series": "LB-CN",
        "bank_account": "DE89",
        "address": "Lab 1",
    }
    given = {"slug": slug, **usual, **fields}
    return create_issuer(fields=given, actor=DORA, at=AT, terms=SITE_TERMS)


def make_recipient(ledger: Ledger, slug: str = "physics", **fields: object) -> Recipient:
    return create_recipient(
        organization=ledger.organization,
        fields={"slug": slug, "name": "Physics", "buyer_reference": "PH-7", **fields},
        actor=DORA,
        at=AT,
    )


def october(ledger: Ledger) -> BillingPeriod:
    return BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")


def documents(**chosen: object) -> list[tuple[str, str, str, str]]:
    rows = Invoice.objects.filter(**chosen).order_by("run", "kind", "total")
    return [
        (row.reference, row.document["customer"]["name"], row.purchase_order, f"{row.total:.2f}")
        for row in rows
    ]


def test_a_run_has_a_document_for_each_issuer_recipient_and_purchase_order(
    ledger: Ledger,
) -> None:
    set_route(
        project=ledger.vision,
        issuer=make_issuer(),
        recipient=make_recipient(ledger),
        purchase_order="PO-1",
        actor=DORA,
        at=AT,
    )

    final = finalize(draft(ledger.organization, "2026-10"))

    assert (final.issuer, final.recipient, f"{final.total:.2f}") == (None, None, "2.00")
    year = final.issue_year
    assert documents() == [
        (f"LB-{year}-000001", "Physics", "PO-1", "1.00"),
        (f"GL-{year}-000001", ledger.organization.name, "", "2.00"),
    ]
    routed = Invoice.objects.get(issuer__slug="labs")
    assert routed.document["issuer"]["bank_account"] == "DE89"
    assert routed.document["customer"]["buyer_reference"] == "PH-7"
    assert routed.document["purchase_order"] == "PO-1"
    assert final.document["issuer"]["bank_account"] != "DE89"
    assert [line.position for line in routed.lines.all()] == [1]
    assert not [one for check in CHECKS for one in check({}).differences]


def test_a_site_without_routes_has_one_document_as_before(ledger: Ledger) -> None:
    before = draft(ledger.organization, "2026-10").document
    make_issuer()
    make_recipient(ledger)
    set_route(project=ledger.llm, actor=DORA, at=AT)

    again = draft(ledger.organization, "2026-10")

    assert (Invoice.objects.count(), again.document) == (1, before)


def test_a_charge_belongs_to_the_document_of_its_project(ledger: Ledger) -> None:
    set_route(project=ledger.vision, purchase_order="PO-1", actor=DORA, at=AT)
    finalize(draft(ledger.organization, "2026-10"))

    lines = {charge.project.slug: charge.line_id for charge in with_line(Charge.objects.all())}

    for slug, key in lines.items():
        line = InvoiceLine.objects.get(pk=key)
        assert line.invoice.purchase_order == {"llm": "", "vision": "PO-1"}[slug]
        of_invoice = charges_of_invoice(Charge.objects.all(), line.invoice_id)
        assert [charge.project.slug for charge in of_invoice] == [slug]


def test_the_review_freezes_routes_and_opening_again_drops_them(ledger: Ledger) -> None:
    set_route(project=ledger.vision, purchase_order="PO-1", actor=DORA, at=AT)
    period = review_period(period_id=october(ledger).pk, actor=DORA, at=AT, terms=SITE_TERMS)
    set_route(project=ledger.vision, purchase_order="PO-2", actor=DORA, at=AT)
    assert list(RunRoute.objects.values_list("run", "purchase_order")) == [(1, "PO-1")]

    reopen_period(period_id=period.pk, reason="Wrong order.", actor=DORA, at=AT)
    assert not RunRoute.objects.exists()
    review_period(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    set_route(project=ledger.vision, purchase_order="PO-3", actor=DORA, at=AT)
    finalize(Invoice.objects.get(purchase_order=""))

    assert sorted(Invoice.objects.values_list("purchase_order", "state")) == [
        ("", "final"),
        ("PO-2", "final"),
    ]
    with pytest.raises(IntegrityError, match="frozen"), transaction.atomic():
        RunRoute.objects.all().delete()


def test_an_open_month_is_not_finalized_along_other_routes_than_shown(ledger: Ledger) -> None:
    shown = draft(ledger.organization, "2026-10")
    set_route(project=ledger.vision, purchase_order="PO-1", actor=DORA, at=AT)

    with pytest.raises(DraftStaleError) as refused:
        finalize(shown)

    assert refused.value.facts["changed"] == "routes"
    assert (Invoice.objects.get().state, RunRoute.objects.count()) == ("draft", 0)


def test_a_draft_made_again_follows_the_routes_and_keeps_what_is_the_same(ledger: Ledger) -> None:
    set_route(project=ledger.vision, purchase_order="PO-1", actor=DORA, at=AT)
    first = draft(ledger.organization, "2026-10")
    kept = draft_invoice(
        period_id=october(ledger).pk, actor=TICK, at=AT, is_kept_if_same=True, terms=SITE_TERMS
    )
    assert (kept.pk, kept.version, kept.drafted_by) == (first.pk, 1, DORA.label)
    set_route(project=ledger.vision, actor=DORA, at=AT)

    again = draft(ledger.organization, "2026-10")

    assert (Invoice.objects.get().pk, again.version, f"{again.total:.2f}") == (first.pk, 2, "3.00")
    assert AuditEntry.objects.filter(action="billing:invoice:discard").count() == 1
    discard_draft(invoice_id=again.pk, actor=DORA, at=AT)
    assert not Invoice.objects.exists()


def test_one_document_of_a_run_is_void_and_replaced_along_the_routes_of_now(
    ledger: Ledger,
) -> None:
    set_route(project=ledger.vision, purchase_order="PO-1", actor=DORA, at=AT)
    finalize(draft(ledger.organization, "2026-10"))
    wrong = Invoice.objects.get(purchase_order="PO-1")
    set_route(project=ledger.vision, purchase_order="PO-2", issuer=make_issuer(), actor=DORA, at=AT)
    set_route(project=ledger.llm, purchase_order="PO-9", actor=DORA, at=AT)

    note, replacement = void_invoice(
        invoice_id=wrong.pk, reason="Wrong order.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    assert (note.purchase_order, replacement.purchase_order) == ("PO-1", "PO-2")
    finalize(note)

    year = wrong.issue_year
    assert documents(run=2) == [
        (f"GL-CN-{year}-000001", ledger.organization.name, "PO-1", "-1.00"),
        (f"LB-{year}-000001", ledger.organization.name, "PO-2", "1.00"),
    ]
    with pytest.raises(NotCreditableError):
        draft_credit(
            invoice_id=wrong.pk, amounts={}, reason="Again.", actor=DORA, at=AT, terms=SITE_TERMS
        )
    other = Invoice.objects.get(run=1, purchase_order="")
    note, replacement = void_invoice(
        invoice_id=other.pk, reason="Too.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    finalize(replacement)
    assert documents(run=3, kind="invoice")[0][2:] == ("PO-9", "2.00")
    owners = {c.project.slug: c.line_id for c in with_line(Charge.objects.all())}
    assert {slug: InvoiceLine.objects.get(pk=key).invoice.run for slug, key in owners.items()} == {
        "llm": 3,
        "vision": 2,
    }
    assert not [one for check in CHECKS for one in check({}).differences]


def test_a_credit_note_has_issuer_recipient_and_series_of_its_invoice(ledger: Ledger) -> None:
    set_route(
        project=ledger.vision,
        issuer=make_issuer(),
        recipient=make_recipient(ledger),
        actor=DORA,
        at=AT,
    )
    finalize(draft(ledger.organization, "2026-10"))
    invoice = Invoice.objects.get(issuer__slug="labs")
    set_route(project=ledger.vision, actor=DORA, at=AT)

    note = draft_credit(
        invoice_id=invoice.pk,
        amounts={invoice.lines.get().pk: Decimal("0.40")},
        reason="Outage.",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )
    note = finalize(note)

    assert (note.reference, note.issuer, note.recipient) == (
        f"LB-CN-{note.issue_year}-000001",
        invoice.issuer,
        invoice.recipient,
    )
    assert note.document["customer"] == invoice.document["customer"]


def test_a_share_of_a_tier_over_two_documents_goes_with_its_project(ledger: Ledger) -> None:
    publish_tiers(price_book=ledger.book, rule=make_rule(), actor=DORA, at=AT)
    whole = draft(ledger.organization, "2026-10")
    discounts = {line.project.slug: line.amount for line in whole.lines.filter(kind="tier")}
    assert discounts.keys() == {"llm", "vision"}
    set_route(project=ledger.vision, purchase_order="PO-1", actor=DORA, at=AT)

    finalize(draft(ledger.organization, "2026-10"))

    for row in Invoice.objects.all():
        (line,) = row.lines.filter(kind="tier")
        assert line.amount == discounts[line.project.slug]
        assert {one.project_id for one in row.lines.all()} == {line.project_id}
    wrong = Invoice.objects.get(purchase_order="PO-1")
    note, replacement = void_invoice(
        invoice_id=wrong.pk, reason="Wrong.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    finalize(note)
    assert Invoice.objects.get(pk=replacement.pk).total == wrong.total


def test_a_recipient_is_taxed_by_its_own_category(ledger: Ledger) -> None:
    for category, rate, text in (("S", 19, ""), ("O", 0, "Internal.")):
        set_tax_rate(
            terms=TaxTerms("DE", category, Decimal(rate), text),
            valid_from=date(2026, 1, 1),
            actor=DORA,
            at=AT,
        )
    taxed = make_recipient(ledger, tax_country="DE", tax_category="S")
    set_route(project=ledger.vision, recipient=taxed, actor=DORA, at=AT)
    first = draft(ledger.organization, "2026-10")
    change_recipient(recipient=taxed, changes={"tax_category": "O"}, actor=DORA, at=AT)
    with pytest.raises(DraftStaleError) as refused:
        finalize(first)
    assert refused.value.facts["changed"] == "taxes"
    change_recipient(recipient=taxed, changes={"tax_category": "S"}, actor=DORA, at=AT)

    finalize(first)

    assert sorted(Invoice.objects.values_list("total", "tax_total")) == [
        (Decimal(1), Decimal("0.19")),
        (Decimal(2), Decimal(0)),
    ]


def test_a_changed_party_makes_the_draft_stale_and_moves_nothing_final(ledger: Ledger) -> None:
    issuer, recipient = make_issuer(), make_recipient(ledger)
    set_route(project=ledger.vision, issuer=issuer, recipient=recipient, actor=DORA, at=AT)
    shown = draft(ledger.organization, "2026-10")
    change_issuer(issuer=issuer, changes={"bank_account": ""}, actor=DORA, at=AT)
    with pytest.raises(DraftStaleError) as refused:
        finalize(shown)
    assert refused.value.facts["changed"] == "issuer.bank_account"
    finalize(draft(ledger.organization, "2026-10"))
    routed = Invoice.objects.get(issuer=issuer)

    change_recipient(recipient=recipient, changes={"name": "Chemistry"}, actor=DORA, at=AT)

    routed.refresh_from_db()
    assert routed.document["customer"]["name"] == "Physics"
    entry = AuditEntry.objects.get(action="billing:recipient:update")
    assert entry.facts["changed"] == {"name": ["Physics", "Chemistry"]}


def test_all_documents_of_a_run_need_another_person(ledger: Ledger) -> None:
    set_route(project=ledger.vision, purchase_order="PO-1", actor=DORA, at=AT)
    draft(ledger.organization, "2026-10")
    other = Invoice.objects.get(purchase_order="PO-1")

    finalize_invoice(invoice_id=other.pk, expected_version=1, actor=ERIC, at=AT, terms=SITE_TERMS)

    assert set(Invoice.objects.values_list("state", "finalized_by")) == {("final", "eric")}
    assert october(ledger).state == "closed"


@pytest.mark.parametrize(
    "fields",
    [
        {"series": "GL"},
        {"credit_series": "GL-CN"},
        {"series": "LB-CN"},
        {"series": "X", "slug": "labs"},
    ],
)
def test_an_issuer_has_numbers_of_its_own(fields: dict[str, str]) -> None:
    make_issuer()

    with pytest.raises(IssuerExistsError):
        make_issuer(**{"slug": "other", "series": "OT", "credit_series": "OT-CN", **fields})

    assert Issuer.objects.count() == 1
    with pytest.raises(IntegrityError), transaction.atomic():
        Issuer.objects.update(series="NEW")


def test_a_route_to_a_recipient_of_others_is_refused(ledger: Ledger) -> None:
    other = create_recipient(
        organization=make_organization("other"),
        fields={"slug": "theirs", "name": "Theirs"},
        actor=DORA,
        at=AT,
    )

    with pytest.raises(RouteInvalidError) as refused:
        set_route(project=ledger.vision, recipient=other, actor=DORA, at=AT)
    with pytest.raises(InvalidInputError):
        set_route(project=ledger.vision, purchase_order="P" * 65, actor=DORA, at=AT)

    assert refused.value.field == "recipient"
    route = set_route(project=ledger.vision, actor=DORA, at=AT)
    with pytest.raises(IntegrityError, match="one organization"), transaction.atomic():
        type(route).objects.update(recipient=other)


def test_the_database_refuses_a_run_that_is_final_in_part(ledger: Ledger) -> None:
    set_route(project=ledger.vision, purchase_order="PO-1", actor=DORA, at=AT)
    first = draft(ledger.organization, "2026-10")

    with pytest.raises(IntegrityError, match="another document of its run is not final"):
        freeze_alone(first)

    assert set(Invoice.objects.values_list("state", flat=True)) == {"draft"}


def test_the_database_refuses_a_line_on_another_document_than_routed(ledger: Ledger) -> None:
    first = draft(ledger.organization, "2026-10")
    set_route(project=ledger.vision, purchase_order="PO-1", actor=DORA, at=AT)

    with pytest.raises(IntegrityError, match="routed to another document"):
        freeze_alone(first)

    assert Invoice.objects.get().state == "draft"


def freeze_alone(invoice: Invoice) -> None:
    """Make one document final past the checks of the service."""
    with transaction.atomic(), connection.cursor() as cursor:
        freeze_routes(invoice.period, run=1)
        BillingPeriod.objects.update(state="closed", closed_at=AT)
        finalizing._freeze(invoice, actor=ERIC, terms=SITE_TERMS)  # noqa: SLF001 - On purpose.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
