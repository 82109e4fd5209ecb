"""Labels of the admin: translated where they are shown, and English wherever else they are read."""

from decimal import Decimal
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import models
from django.test import Client
from django.utils.functional import Promise
from django.utils.translation import override

from billing.models import Invoice, Payment, Price, PriceBook
from config.pages.labels import MARKED, mark_labels
from metering.models import MeteringException
from quotas.models import QuotaLimit, QuotaRequest
from tenants.models import AuditEntry, Cluster, Organization
from tenants.services.changing import noun_of
from tests.support.billing.ledger import make_book
from tests.support.cast import Cast, make_cast
from tests.support.german import GERMAN
from tests.support.shared_rows import shared_rows
from tests.support.tenants.desk import enter

NAMES = {
    Invoice: ("Rechnung", "Rechnungen", "invoice", "invoices"),
    Payment: ("Zahlung", "Zahlungen", "payment", "payments"),
    PriceBook: ("Preisliste", "Preislisten", "price book", "price books"),
    MeteringException: ("Ausnahme", "Ausnahmen", "metering exception", "metering exceptions"),
    QuotaRequest: ("Kontingentantrag", "Kontingentanträge", "quota request", "quota requests"),
    QuotaLimit: ("Limit", "Limits", "quota limit", "quota limits"),
    AuditEntry: ("Protokolleintrag", "Protokolleinträge", "audit entry", "audit entries"),
    Cluster: ("Cluster", "Cluster", "cluster", "clusters"),
}
COLUMNS = {
    (Invoice, "finalized_at"): "festgeschrieben am",
    (Invoice, "purchase_order"): "Bestellnummer",
    (Payment, "booked_on"): "gebucht am",
    (Price, "unit_price"): "Preis je Einheit",
    (QuotaRequest, "requested_units"): "beantragte Einheiten",
    (Organization, "cost_center"): "Kostenstelle",
}


@shared_rows
def cast() -> Cast:
    people = make_cast()
    User.objects.update(is_staff=True)
    return people


@pytest.mark.parametrize("model", NAMES)
def test_a_table_has_the_name_of_the_language(model: type[models.Model]) -> None:
    meta = model._meta  # noqa: SLF001 - Documented model meta.

    with override("de"):
        assert (str(meta.verbose_name), str(meta.verbose_name_plural)) == NAMES[model][:2]
    with override("en"):
        assert (str(meta.verbose_name), str(meta.verbose_name_plural)) == NAMES[model][2:]


@pytest.mark.parametrize(("model", "column"), COLUMNS)
def test_a_column_has_the_name_of_the_language(model: type[models.Model], column: str) -> None:
    field: Any = model._meta.get_field(column)  # noqa: SLF001 - Documented model meta.

    with override("de"):
        assert str(field.verbose_name) == COLUMNS[model, column]
    with override("en"):
        assert str(field.verbose_name) == column.replace("_", " ")


@pytest.mark.parametrize(
    ("column", "english", "german"),
    [
        ("prometheus_url", "prometheus URL", "Prometheus-URL"),
        ("kubernetes_url", "kubernetes URL", "Kubernetes-URL"),
        ("slug", "slug", "Kurzname"),
    ],
)
def test_an_abbreviation_has_capitals(column: str, english: str, german: str) -> None:
    field: Any = Cluster._meta.get_field(column)  # noqa: SLF001 - Documented model meta.

    with override("en"):
        assert str(field.verbose_name) == english
    with override("de"):
        assert str(field.verbose_name) == german


def test_the_form_of_a_cluster_asks_for_the_url_of_prometheus(cast: Cast) -> None:
    page = enter(cast.frank).get("/admin/tenants/cluster/add/").content.decode()

    assert "Prometheus URL" in page
    assert "Prometheus url" not in page


def test_a_choice_is_read_in_the_language_and_stored_as_it_is() -> None:
    found = MeteringException(kind="low_coverage", state="open")

    with override("de"):
        assert found.get_kind_display() == "Geringe Abdeckung"
    with override("en"):
        assert found.get_kind_display() == "Low coverage"
    assert found.kind == "low_coverage"


def test_an_object_is_named_in_english_in_the_audit_trail() -> None:
    with override("de"):
        assert noun_of(PriceBook) == "price_book"
        assert noun_of(MeteringException) == "metering_exception"


def test_marked_labels_need_no_migration() -> None:
    for model in admin.site._registry:  # noqa: SLF001 - All pages.
        meta = model._meta  # noqa: SLF001 - Documented model meta.
        for field in meta.local_fields:
            _, _, _, options = field.deconstruct()
            stored = options.get("verbose_name", "")
            assert meta.app_label == "auth" or not isinstance(stored, Promise)
            for value, label in options.get("choices", ()):
                assert label == str(label), (meta.label, field.name, value)


def test_marking_a_page_again_changes_nothing() -> None:
    page = admin.site.get_model_admin(Invoice)
    known, label = dict(MARKED), page.total_text.short_description  # type: ignore[attr-defined]

    mark_labels(page)

    assert known == MARKED
    assert page.total_text.short_description is label  # type: ignore[attr-defined]


def test_every_label_of_the_admin_is_marked() -> None:
    unmarked = [
        f"{model.__name__}.{field.name}"
        for model in admin.site._registry  # noqa: SLF001 - All pages.
        for field in model._meta.fields  # noqa: SLF001 - Documented model meta.
        if not isinstance(field.verbose_name, Promise)
    ]

    assert unmarked == []
    assert all(
        isinstance(one.verbose_name, Promise) for one in apps.get_app_configs() if one.models
    )


def test_a_form_in_german_keeps_what_is_typed(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.dora)
    client.defaults |= GERMAN
    form = {"slug": "eu", "name": "EU", "currency": "EUR", "discount_percent": ""}

    page = client.get("/admin/billing/pricebook/add/").content.decode()
    client.post("/admin/billing/pricebook/add/", form)

    assert "Basisliste" in page
    assert "Rabatt in Prozent" in page
    made = PriceBook.objects.get(slug="eu")
    assert (made.name, made.currency, made.discount_percent) == ("EU", "EUR", None)
    assert AuditEntry.objects.filter(object_kind="price_book").count() == 1


def test_decimals_are_typed_with_a_point_whatever_the_language(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.dora)
    client.defaults |= GERMAN
    base = make_book("base")
    form = {"slug": "uni", "name": "Uni", "currency": "EUR", "base_book": str(base.pk)}

    client.post("/admin/billing/pricebook/add/", {**form, "discount_percent": "12.5"})

    assert PriceBook.objects.get(slug="uni").discount_percent == Decimal("12.5")
