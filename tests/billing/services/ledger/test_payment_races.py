"""Two imports of payments at once: the second waits, and adds nothing twice."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import transaction

from billing.adapters.bank_files import read_csv
from billing.models import Payment
from billing.services.ledger.payments import import_payments
from tests.billing.services.test_races import WAIT_SECONDS, apart, wait_until_blocked
from tests.support.billing.ledger import DORA
from tests.support.billing.payments import csv_text, pay
from tests.support.builders import AT

pytestmark = pytest.mark.usefixtures("committed_db")


def test_files_with_the_same_rows_in_opposite_order_do_not_deadlock() -> None:
    bank_file = read_csv(csv_text(("B2", "3.00", ""), ("B1", "3.00", "")).encode())

    with ThreadPoolExecutor(max_workers=1) as pool:
        with transaction.atomic():
            pay("B1")
            waiting = apart(pool, lambda: import_payments(bank_file=bank_file, actor=DORA, at=AT))
            wait_until_blocked()
            pay("B2")
        report = waiting.result(WAIT_SECONDS)

    assert (report.recorded, report.repeated, report.refused) == ([], 2, [])
    assert Payment.objects.count() == 2
