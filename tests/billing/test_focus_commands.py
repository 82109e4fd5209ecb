"""`manage.py export_focus` and `manage.py check_focus`, one on the file of the other."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from tests.support.billing.ledger import month_of_use


@pytest.mark.django_db
@pytest.mark.parametrize("format_name", ["csv", "parquet"])
def test_what_one_writes_the_other_accepts(format_name: str, tmp_path: Path) -> None:
    month_of_use([("llm", 1001)])
    path, out = tmp_path / "costs", StringIO()

    call_command(
        "export_focus", month="2026-10", format=format_name, output=str(path), focus_version="1.3"
    )
    call_command("check_focus", str(path), stdout=out)

    assert out.getvalue() == "CostAndUsage of FOCUS 1.3: no findings.\n"


@pytest.mark.django_db
def test_findings_are_printed_and_fail(tmp_path: Path) -> None:
    month_of_use([("llm", 1001)])
    path, out = tmp_path / "costs.csv", StringIO()
    call_command("export_focus", month="2026-10", output=str(path))
    path.write_text(path.read_text().replace("Unit-Hours", "unit_hours"))

    with pytest.raises(CommandError, match="2 findings; the first 2"):
        call_command("check_focus", str(path), stdout=out)

    assert out.getvalue().startswith("row 1, PricingUnit: It is 'unit_hours'. Write units as FOCUS")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"PAR1 cut short", None])
def test_a_file_that_cannot_be_read_is_refused(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "costs"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(CommandError, match="cannot be read"):
        call_command("check_focus", str(path))
