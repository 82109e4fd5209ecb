"""Plans are settled for one transaction, and joins over usage are hash joins."""

import pytest
from django.db import connection, transaction

from billing.models import Invoice
from billing.selectors.locks import lock_invoice
from billing.selectors.pending import count_unaccrued_windows
from billing.services.rating_statements import WINDOWS, rate
from metering.selectors.collection.plans import prefer_hash_joins
from tenants.domain.identifiers import new_id
from tests.support.billing.ledger import Use, accrue_everything, make_ledger, sealed_window
from tests.support.builders import AT, MONTH_START


def setting() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW enable_nestloop")
        return str(cursor.fetchone()[0])


@pytest.mark.usefixtures("committed_db")
def test_the_preference_ends_with_its_transaction() -> None:
    with transaction.atomic():
        prefer_hash_joins()
        assert setting() == "off"

    assert setting() == "on"
    with pytest.raises(RuntimeError, match="one transaction"):
        prefer_hash_joins()


@pytest.mark.django_db
def test_usage_is_joined_to_its_prices_by_hash_even_without_statistics() -> None:
    ledger = make_ledger()
    window = sealed_window(ledger.cluster, [Use(ledger.llm)])
    prefer_hash_joins()

    with connection.cursor() as cursor:
        cursor.execute(
            f"EXPLAIN {rate(WINDOWS)}",
            {
                "windows": [window.pk],
                "hours": [MONTH_START],
                "organization_ids": [ledger.organization.pk],
                "period_ids": [],
                "at": AT,
            },
        )
        lines = [row[0].strip() for row in cursor.fetchall()]

    scan = "CTE Scan on lacking l"
    joined = [lines[n - 2 : n + 4] for n, line in enumerate(lines) if scan in line]
    assert any("Hash" in line for part in joined for line in part)
    assert not any("Merge Join" in line for line in lines)


@pytest.mark.django_db
def test_windows_not_yet_charged_are_counted() -> None:
    ledger = make_ledger()
    sealed_window(ledger.cluster, [Use(ledger.llm)])

    assert count_unaccrued_windows() == 1
    accrue_everything()
    assert count_unaccrued_windows() == 0


@pytest.mark.django_db
def test_locking_what_is_not_there_says_so() -> None:
    with pytest.raises(Invoice.DoesNotExist):
        lock_invoice(new_id())
