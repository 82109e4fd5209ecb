"""Admin pages of billing: everything is seen, and written through services only."""

import re
from html import unescape
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from billing.admin.periods import PAGES
from billing.models import (
    BillingPeriod,
    Invoice,
    PriceBook,
    PriceBookAssignment,
)
from billing.selectors.closing import readiness_of, reasons_against
from billing.services.invoicing import draft_invoice
from tenants.domain.actors import Actor, ActorKind
from tenants.domain.identity.roles import Role
from tests.support.billing.documents import make_document
from tests.support.billing.late import finalize
from tests.support.billing.ledger import HOUR, Use, accrue_everything, make_window, sealed_window
from tests.support.billing.office import Office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END, MONTH_START, bind, grant, make_cluster, make_user

TABLES = (
    "pricebook",
    "price",
    "pricebookassignment",
    "customerclass",
    "customerclassmembership",
    "pricedraft",
    "repricing",
    "charge",
    "accrualexception",
    "accruedwindow",
    "billingperiod",
    "invoice",
    "invoiceseries",
)


@pytest.fixture(autouse=True)
def staff(office: Office) -> None:  # noqa: ARG001 - The people must be there.
    User.objects.update(is_staff=True)


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page_of(invoice: Invoice, step: str = "") -> str:
    return f"/admin/billing/invoice/{invoice.pk}/{step}"


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.usefixtures("draft")
def test_every_table_is_listed_and_searched(office: Office, table: str) -> None:
    sealed_window(make_cluster("other"), [Use(office.cast.llm, size="large")], start_at=MONTH_END)
    accrue_everything()
    client = enter(office.cast.dora)

    for query in ("", "?q=a"):
        assert client.get(f"/admin/billing/{table}/{query}").status_code == 200


@pytest.mark.parametrize("name", ["alice", "bob", "mallory"])
def test_a_role_of_one_organization_opens_no_page(
    office: Office, draft: Invoice, name: str
) -> None:
    client = enter(getattr(office.cast, name))

    for table in TABLES:
        assert client.get(f"/admin/billing/{table}/").status_code == 403
    assert client.get(page_of(draft, "pdf/")).status_code == 403


def test_books_assignments_and_months_are_made_through_services(office: Office) -> None:
    client = enter(office.cast.dora)

    client.post("/admin/billing/pricebook/add/", {"slug": "b", "name": "B", "currency": "EUR"})
    client.post(
        "/admin/billing/pricebookassignment/add/",
        {
            "organization": str(office.cast.acme.pk),
            "price_book": str(PriceBook.objects.get(slug="b").pk),
            "valid_from_0": "2027-01-01",
            "valid_from_1": "00:00:00",
        },
    )
    client.post(
        "/admin/billing/billingperiod/add/",
        {"organization": str(office.cast.acme.pk), "label": "2027-01"},
    )

    assert PriceBookAssignment.objects.filter(price_book__slug="b").count() == 1
    assert BillingPeriod.objects.filter(label="2027-01").count() == 1


def test_a_month_walks_from_period_to_final_invoice_by_buttons(office: Office) -> None:
    eric = make_user("eric", is_staff=True)
    grant(eric, Role.FINANCE_ADMIN)
    dora, other = enter(office.cast.dora), enter(eric)

    dora.post(
        "/admin/billing/billingperiod/",
        {"action": "draft_invoices", "_selected_action": [str(office.period.pk)]},
    )
    invoice = Invoice.objects.get()
    page = other.get(page_of(invoice, "change/")).content.decode()
    drafters = dora.get(page_of(invoice, "change/")).content.decode()
    own = dora.post(page_of(invoice, "finalize/"), {"version": "1"}, follow=True)
    assert Invoice.objects.get().state == "draft"
    done = other.post(page_of(invoice, "finalize/"), {"version": "1"}, follow=True)

    assert page_of(invoice, "finalize/") in page
    assert page_of(invoice, "finalize/") not in drafters
    assert "another finance administrator finalize it" in drafters
    assert "Small unit, H100 1g.10gb" in page
    assert page_of(invoice, "pdf/") in page
    assert "may not finalize" in own.content.decode()
    assert "The invoice is final." in done.content.decode()
    final = Invoice.objects.get()
    assert (final.number, final.finalized_by) == (1, "eric")
    assert "Finalize</" not in re.sub(r"\s+", "", done.content.decode())


def test_the_page_of_an_invoice_groups_its_numbers_and_adds_no_sizes(
    office: Office, draft: Invoice
) -> None:
    lines = (("llm", "large", "H100/whole", "2.75", 4_442_401), ("llm", "small", "*", "0.50", 90))
    Invoice.objects.filter(pk=draft.pk).update(document=make_document(lines=lines))
    client = enter(office.cast.dora)

    page = client.get(page_of(draft, "change/")).content.decode()
    cells = [re.sub(r"\s+", " ", cell).strip() for cell in re.findall(r"<td[^>]*>([^<]*)<", page)]

    assert cells[cells.index("Small in all") :][:9] == [
        *("Small in all", "0.0250", "", "0.01"),
        *("Large in all", "1,234.0003", "", "3,393.50"),
        "Total",
    ]
    assert cells[cells.index("Total") + 1] == "3,393.51"
    assert "1234.000278" not in page
    assert "1234.025278" not in page
    csv = client.get(page_of(draft, "csv/")).content.decode()
    assert ",4442401,1234.000278,2.75,3393.50" in csv


def test_a_draft_is_made_again_and_discarded_by_buttons(office: Office, draft: Invoice) -> None:
    client = enter(office.cast.dora)

    client.post(page_of(draft, "redraft/"))
    assert Invoice.objects.get().version == 2
    unseen = client.post(page_of(draft, "discard/"), {"version": "1"}, follow=True)
    assert "was changed" in unseen.content.decode()
    client.post(page_of(draft, "discard/"), {"version": "2"})

    assert not Invoice.objects.exists()


@pytest.mark.parametrize("step", ["finalize/", "discard/"])
@pytest.mark.parametrize("sent", [{}, {"version": ""}, {"version": "one"}, {"version": "9" * 5000}])
def test_a_draft_nobody_says_to_have_seen_stays(
    draft: Invoice, step: str, sent: dict[str, str]
) -> None:
    eric = make_user("eric", is_staff=True)
    grant(eric, Role.FINANCE_ADMIN)

    answer = enter(eric).post(page_of(draft, step), sent, follow=True)

    assert "does not say which version" in answer.content.decode()
    now = Invoice.objects.get()
    assert (now.state, now.version) == ("draft", 1)


@pytest.mark.parametrize("step", ["finalize/", "redraft/", "discard/"])
def test_following_a_link_changes_nothing_and_an_auditor_has_no_buttons(
    office: Office, draft: Invoice, step: str
) -> None:
    assert enter(office.cast.dora).get(page_of(draft, step)).status_code == 405
    ann = enter(office.cast.ann)
    assert ann.post(page_of(draft, step)).status_code == 403
    assert page_of(draft, step) not in ann.get(page_of(draft, "change/")).content.decode()
    assert Invoice.objects.get().version == 1


def test_the_document_is_shown_inside_the_page(office: Office, draft: Invoice) -> None:
    client = enter(office.cast.ann)

    pdf = client.get(page_of(draft, "pdf/"))
    csv = client.get(page_of(draft, "csv/"))

    assert (pdf["X-Frame-Options"], pdf["Content-Type"]) == ("SAMEORIGIN", "application/pdf")
    assert pdf["Content-Disposition"].startswith("inline")
    assert csv["Content-Disposition"].startswith("attachment")
    missing = f"/admin/billing/invoice/{office.period.pk}/pdf/"
    assert client.get(missing).status_code == 404


def test_a_month_that_is_not_ready_names_every_reason_with_a_page(office: Office) -> None:
    cluster = make_cluster("other")
    bind(cluster, "llm", office.cast.llm, end_at=MONTH_START + 2 * HOUR)
    sealed_window(cluster, [Use(office.cast.llm, size="small")])
    period = office.period
    client = enter(office.cast.dora)

    page = client.get(f"/admin/billing/billingperiod/{period.pk}/change/").content.decode()
    refused = client.post(
        "/admin/billing/billingperiod/",
        {"action": "draft_invoices", "_selected_action": str(period.pk)},
        follow=True,
    ).content.decode()

    reasons = reasons_against(period, readiness_of(period, at=timezone.now()), at=timezone.now())
    assert [reason.code for reason in reasons] == ["windows_not_sealed", "windows_not_accrued"]
    for reason in reasons:
        assert reason.message in page
        assert reason.message in refused
    links = [unescape(link) for link in re.findall(r'href="(/admin/[a-z/]+\?[^"]+)"', page)]
    assert [link.partition("?")[0] for link in links] == [
        "/admin/metering/meteringwindow/",
        "/admin/metering/meteringwindow/",
    ]
    unsealed, sealed = (client.get(link).context["cl"] for link in links)
    assert "sealed" not in set(unsealed.queryset.values_list("state", flat=True))
    assert "other" in set(sealed.queryset.values_list("cluster__slug", flat=True))
    assert set(sealed.queryset.values_list("state", flat=True)) == {"sealed"}


def test_a_running_month_counts_the_hours_to_come_apart_and_links_only_its_clusters(
    office: Office,
) -> None:
    cluster = make_cluster("other")
    bind(cluster, "llm", office.cast.llm, end_at=MONTH_START + 5 * HOUR)
    at = MONTH_START + 2 * HOUR
    for number in range(2):
        make_window(cluster, MONTH_START + number * HOUR)
    make_window(make_cluster("strange"), MONTH_START)

    readiness = readiness_of(office.period, at=at)
    over, unsealed = reasons_against(office.period, readiness, at=at)[:2]
    page = (
        enter(office.cast.dora)
        .get(f"/admin/billing/billingperiod/{office.period.pk}/change/")
        .content.decode()
    )
    link = unescape(re.findall(r'href="(/admin/metering/[a-z/]+\?[^"]+)"', page)[0])
    listed = enter(office.cast.dora).get(link).context["cl"].queryset

    assert (readiness.unsealed_windows, readiness.upcoming_windows) == (2, 3)
    assert over.message == "The period ends at 2026-11-01T00:00:00Z; 3 hours are still to come."
    assert unsealed.message.startswith("2 metering windows are not sealed, the first at 2026-")
    assert set(listed.values_list("cluster__slug", flat=True)) == {"other"}
    assert listed.count() == 2


def test_a_complete_month_says_how_it_is_drafted_and_shows_plain_dates(office: Office) -> None:
    client = enter(office.cast.dora)

    page = client.get(f"/admin/billing/billingperiod/{office.period.pk}/change/").content.decode()

    assert "Ready: draft it with" in page
    assert "DateTimeTZRange" not in page
    assert "2026-10-01 00:00 to" in page or "2026-09-30 22:00 to" in page


def test_every_page_a_reason_leads_to_takes_its_filter(office: Office) -> None:
    client = enter(office.cast.dora)
    facts = {"begin": MONTH_START.isoformat(), "end": MONTH_END.isoformat(), "label": "2026-10"}
    facts["organization"] = str(office.cast.acme.pk)
    facts["clusters"] = ",".join([str(uuid4()), str(uuid4())])

    # The admin redirects from a filter it does not know.
    answers = {
        code: client.get(reverse(view), {k: v.format(**facts) for k, v in query.items()})
        for code, (_, view, query) in PAGES.items()
    }

    assert {code: answer.status_code for code, answer in answers.items()} == dict.fromkeys(
        PAGES, 200
    )


def finalized(office: Office) -> Invoice:
    dora = Actor(kind=ActorKind.PERSON, id=str(office.cast.dora.pk), label="dora")
    return finalize(draft_invoice(period_id=office.period.pk, actor=dora, at=AT, terms=SITE_TERMS))


def test_a_final_invoice_is_credited_by_line_from_its_page(office: Office) -> None:
    invoice = finalized(office)
    client = enter(office.cast.dora)
    line = invoice.lines.get(project__slug="vision")
    form = {f"line-{line.pk}": " 0.40 ", f"line-{uuid4()}": "", "reason": "Broken hardware."}

    assert (
        "Credit, debit or replace this invoice"
        in client.get(page_of(invoice, "change/")).content.decode()
    )
    answer = client.post(page_of(invoice, "credit/"), form)

    note = Invoice.objects.get(corrects=invoice)
    assert answer["Location"].endswith(page_of(note, "change/"))
    assert (note.kind, f"{note.total:.2f}", note.run_reason) == (
        "credit_note",
        "-0.40",
        "Broken hardware.",
    )
    assert "Reason: Broken hardware." in client.get(page_of(note, "change/")).content.decode()


def test_more_is_asked_for_on_a_line_of_a_final_invoice_from_its_page(office: Office) -> None:
    invoice = finalized(office)
    client = enter(office.cast.dora)
    line = invoice.lines.get(project__slug="vision")

    answer = client.post(
        page_of(invoice, "debit/"), {f"line-{line.pk}": "0.40", "reason": "Too little."}
    )

    note = finalize(Invoice.objects.get(corrects=invoice))
    assert answer["Location"].endswith(page_of(note, "change/"))
    assert (note.kind, f"{note.total:.2f}", note.run_reason) == (
        "debit_note",
        "0.40",
        "Too little.",
    )
    page = client.get(page_of(note, "change/")).content.decode()
    assert "Credit this debit note" in page
    assert "Void and replace" not in page


@pytest.mark.parametrize(
    ("typed", "reason", "shown"),
    [
        ("x", "r", "An amount is no number."),
        ("NaN", "r", "An amount is no number."),
        ("1e999999999", "r", "An amount is no number."),
        ("-1", "r", "not above zero"),
        ("9.00", "r", "More is asked than is left of the line."),
        ("0.10", " ", "The decision has no reason."),
    ],
)
def test_a_wrong_credit_changes_nothing(
    office: Office, typed: str, reason: str, shown: str
) -> None:
    invoice = finalized(office)
    client = enter(office.cast.dora)
    line = invoice.lines.earliest("position")

    answer = client.post(
        page_of(invoice, "credit/"), {f"line-{line.pk}": typed, "reason": reason}, follow=True
    )

    assert shown in unescape(answer.content.decode())
    assert not Invoice.objects.filter(corrects=invoice).exists()


def test_a_void_invoice_is_replaced_and_both_drafts_name_each_other(office: Office) -> None:
    invoice = finalized(office)
    client = enter(office.cast.dora)

    client.post(page_of(invoice, "void/"), {"reason": "The address was wrong."})

    note = Invoice.objects.get(corrects=invoice)
    replacement = Invoice.objects.get(run=2, corrects=None)
    for one, other in ((note, replacement), (replacement, note)):
        text = client.get(page_of(one, "change/")).content.decode()
        assert "Becomes final together with" in text
        assert page_of(other, "change/") in text
        assert "Draft again" not in text
        assert (page_of(invoice, "change/") in text) == (one == note)


def test_who_may_not_write_corrects_nothing(office: Office) -> None:
    invoice = finalized(office)
    client = enter(office.cast.ann)

    offered = "Credit, debit or replace this invoice"
    assert offered in enter(office.cast.dora).get(page_of(invoice, "change/")).text
    assert offered not in client.get(page_of(invoice, "change/")).text
    for step in ("credit/", "void/"):
        assert client.post(page_of(invoice, step), {"reason": "r"}).status_code == 403
    assert not Invoice.objects.filter(corrects=invoice).exists()
