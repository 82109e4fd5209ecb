"""The page of an incident settles all of it, and shows which organization a binding bills."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from metering.models import (
    MeteringException,
    MeteringWindow,
    ReconciliationDecision,
)
from tenants.models import AuditEntry, Cluster, NamespaceBinding
from tests.support.billing.ledger import assign, make_book, make_price
from tests.support.builders import make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.alike import allocated, excepted, hour_of, stray
from tests.support.metering.seen import HOUR
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

BOOK_FROM = HOUR - timedelta(days=1)


@shared_rows
def cluster() -> Cluster:
    return make_cluster(name="Hopper (H100)", metered_from=HOUR)


@shared_rows
def cast() -> Cast:
    people = make_cast()
    User.objects.update(is_staff=True)
    return people


@pytest.fixture
def client(cast: Cast) -> Client:
    """Frank, who looks after the platform."""
    return signed_in(cast.frank)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)).strip()


def seal(window: MeteringWindow) -> None:
    ended = window.start_at + timedelta(hours=1)
    MeteringWindow.objects.filter(pk=window.pk).update(
        state="sealed", as_of=ended, sealed_at=ended, collected_at=ended
    )


def page_of(exception: MeteringException) -> str:
    exception.refresh_from_db()
    return f"/admin/metering/meteringexception/incidents/{exception.incident}/"


def disputed(window: MeteringWindow, numbers: range) -> MeteringException:
    """Write as many exceptions of pods about which two sources differ; return the first."""
    first = excepted(window, "differs", subject="pod-first r", namespace="llm", held=60)
    MeteringException.objects.bulk_create(
        MeteringException(
            cluster=window.cluster,
            window=window,
            window_start=window.start_at,
            kind="differs",
            subject=f"pod-{number} r",
            namespace="llm",
            held_unit_seconds=60,
            created_at=window.start_at,
        )
        for number in numbers[1:]
    )
    return first


def test_of_300_rows_3_are_refused_with_their_reason_and_297_are_settled(
    client: Client, cluster: Cluster
) -> None:
    whole, busy = hour_of(cluster, 0), hour_of(cluster, 1)
    found = disputed(whole, range(297))
    disputed(busy, range(3))
    MeteringWindow.objects.filter(pk=whole.pk).update(state="collected")
    MeteringWindow.objects.filter(pk=busy.pk).update(
        state="collecting", lease_until=timezone.now() + timedelta(hours=1)
    )

    pressed = {"settle": "prometheus", "note": "The node's log says so."}
    shown = text_of(client.post(page_of(found), pressed, follow=True).content.decode())

    assert "297 exceptions are billed as accepted." in shown
    assert "3 refused: A worker collects the window at the moment." in shown
    assert "Hours (UTC): 2026-10-05 14:00, 2026-10-05 14:00, 2026-10-05 14:00." in shown
    assert MeteringException.objects.filter(state="resolved", window=whole).count() == 297
    assert MeteringException.objects.filter(state="open", window=busy).count() == 3
    assert ReconciliationDecision.objects.filter(side="prometheus").count() == 297
    entries = AuditEntry.objects.filter(action="metering:exception:accept_evidence")
    assert entries.count() == 297


def test_all_of_an_incident_is_left_unbilled_for_one_reason(
    client: Client, cluster: Cluster
) -> None:
    rows = [stray(hour_of(cluster, number), "a") for number in range(3)]
    other = stray(hour_of(cluster, 0), "b", namespace="other")

    without = client.post(page_of(rows[0]), {"settle": "unbilled", "note": " "})
    assert "This field is required." in without.content.decode()
    assert MeteringException.objects.filter(state="open").count() == 4
    pressed = {"settle": "unbilled", "note": "A test cluster."}
    shown = client.post(page_of(rows[0]), pressed, follow=True).content.decode()

    assert "3 exceptions are resolved, and left unbilled." in shown
    assert [one.pk for one in MeteringException.objects.filter(state="open")] == [other.pk]
    assert set(
        MeteringException.objects.filter(namespace="stray").values_list("resolution", flat=True)
    ) == {"A test cluster."}


def test_the_page_shows_who_is_billed_and_how_much_before_a_namespace_is_bound(
    cast: Cast, client: Client, cluster: Cluster
) -> None:
    book = make_book()
    assign(cast.acme, book, begin_at=BOOK_FROM)
    make_price(book, "4.00", size="large", price_group="*", begin_at=BOOK_FROM)
    allocated(cluster, "a", "large", price_group="H100/whole")
    rows = [stray(hour_of(cluster, number), "a") for number in range(3)]
    for window in MeteringWindow.objects.filter(start_at__lt=HOUR + timedelta(hours=2)):
        seal(window)

    shown = text_of(client.get(page_of(rows[0]), {"project": str(cast.llm.pk)}).content.decode())
    assert not NamespaceBinding.objects.exists()
    pressed = {"bind": "1", "project": str(cast.llm.pk)}
    done = text_of(client.post(page_of(rows[0]), pressed, follow=True).content.decode())

    assert (
        "Billed Acme, llm Unit-hours Large 3.00 Cost about 12.00 EUR What happens then "
        "2 hours already sealed: metered again within about ten minutes, and billed by a "
        "correction. 1 hour not sealed yet: billed once sealed. "
        "The use appears on the October 2026 bill of Acme."
    ).lower() in shown.lower()
    assert "belongs to LLM from that hour on. 2 hours already sealed" in done
    assert "October 2026 bill of Acme" in done
    binding = NamespaceBinding.objects.get(namespace="stray")
    assert (binding.project, binding.valid.lower, binding.valid.upper) == (cast.llm, HOUR, None)


def test_hours_too_old_for_a_recheck_are_not_promised(
    cast: Cast, client: Client, cluster: Cluster, settings: object
) -> None:
    settings.RECHECK_RETENTION_SECONDS = 1  # type: ignore[attr-defined] # pytest-django's.
    found = stray(hour_of(cluster, 0), "a")
    seal(hour_of(cluster, 0))

    shown = text_of(client.get(page_of(found), {"project": str(cast.llm.pk)}).content.decode())

    assert "1 hour too old for a recheck" in shown
    assert "metered again" not in shown
    assert " bill of Acme" not in shown


def test_hours_that_were_not_metered_are_decided_on_together(
    client: Client, cluster: Cluster
) -> None:
    rows = [excepted(hour_of(cluster, number), "low_coverage") for number in range(3)]
    MeteringWindow.objects.update(state="gap")
    page = page_of(rows[0])

    assert f"{page}waive/" in client.get(page).content.decode()
    preview = client.get(f"{page}waive/")
    assert "Hours this applies to</th><td>3</td>" in preview.content.decode()
    fields = dict(preview.context["fields"])
    pressed = {**fields, "confirm": "1", "note": "Never to be had."}
    client.post(f"{page}waive/", pressed)

    assert set(MeteringWindow.objects.values_list("gap_policy", flat=True)) == {"waive"}
    assert not MeteringException.objects.filter(state="open").exists()
    assert client.get(f"{page}drop/").status_code == 404


def test_who_may_not_act_is_shown_who_may(cast: Cast, cluster: Cluster) -> None:
    found = stray(hour_of(cluster, 0), "a")
    ann = signed_in(cast.ann)

    shown = text_of(ann.get(page_of(found)).content.decode())
    ann.post(page_of(found), {"settle": "unbilled", "note": "No."})
    refused = ann.get(f"{page_of(found)}waive/")

    assert "It may be settled by a platform admin." in shown
    assert "Leave all unbilled" not in shown
    assert refused.status_code == 403
    found.refresh_from_db()
    assert found.state == "open"


def test_what_is_settled_already_leads_back_to_the_list(client: Client, cluster: Cluster) -> None:
    found = stray(hour_of(cluster, 0), "a")
    page = page_of(found)
    MeteringException.objects.update(state="resolved")

    shown = client.get(page, follow=True)

    assert shown.redirect_chain == [("/admin/metering/meteringexception/", 302)]
    assert "Nothing of this incident is open any more." in shown.content.decode()
