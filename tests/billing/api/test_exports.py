"""Exports over REST: of the organizations whose bills a caller reads."""

import csv
import io
import json
import zipfile

import pytest
from django.contrib.auth.models import User

from tenants.models import Project
from tests.support.billing.office import Office
from tests.support.tenants.clients import api_client, problem

PATH = "/api/v1/exports/focus/"
MONTH = "/api/v1/exports/month/"


def accounts(user: User, **query: str) -> dict[str, set[str]]:
    """Return the projects of each organization in a caller's file of October."""
    answer = api_client(user).get(PATH, {"month": "2026-10", **query})
    assert answer.status_code == 200, answer.content
    assert answer["Content-Disposition"].endswith('CostAndUsage-2026-10.csv"')
    found: dict[str, set[str]] = {}
    content = answer.getvalue().decode()
    for row in csv.DictReader(io.StringIO(content, newline="")):
        found.setdefault(row["BillingAccountName"], set()).add(row["SubAccountName"])
    return found


def test_a_caller_gets_the_organizations_whose_bills_it_reads(office: Office) -> None:
    Project.objects.filter(pk=office.cast.llm.pk).update(name="=cmd()")

    everything = accounts(office.cast.dora)
    own = accounts(office.cast.alice)

    assert set(everything) == {"Acme", "Umbrella"}
    assert own == {"Acme": {"'=cmd()", "VISION"}}
    assert accounts(office.cast.dora, organization=str(office.cast.umbrella.pk)) == {
        "Umbrella": {"VIRUS"}
    }


def bundled(user: User, name: str) -> tuple[set[str], set[str]]:
    """Return the organizations and the tables of a caller's bundle of October."""
    answer = api_client(user).get(MONTH, {"month": "2026-10"})
    assert answer.status_code == 200
    assert answer["Content-Disposition"] == f'attachment; filename="{name}"'
    with zipfile.ZipFile(io.BytesIO(answer.getvalue())) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        charges = [json.loads(line) for line in archive.read("charges.jsonl").splitlines()]
        tables = {path for path in archive.namelist() if "/" not in path and ".csv" in path}
    assert {charge["organization"] for charge in charges} == {*manifest["organizations"]}
    return {*manifest["organizations"]}, tables


def test_a_bundle_has_the_bills_that_a_caller_reads_and_the_journal_for_finance(
    office: Office,
) -> None:
    name = "gpu-ledger-2026-10.zip"

    everything = bundled(office.cast.dora, name)
    own = bundled(office.cast.alice, name)

    assert everything == ({"acme", "umbrella"}, {"documents.csv", "lines.csv", "journal.csv"})
    assert own == ({"acme"}, {"documents.csv", "lines.csv"})


@pytest.mark.parametrize("path", [PATH, MONTH])
def test_who_reads_no_bills_is_refused(office: Office, path: str) -> None:
    answer = api_client(office.cast.bob).get(path, {"month": "2026-10"})

    assert problem(answer) == (403, "forbidden")
    assert problem(api_client(office.cast.dora).get(path, {"month": "10"})) == (
        422,
        "period_label_invalid",
    )


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        (MONTH, {}, 403),
        (PATH, {}, 403),
        (PATH, {"dataset": "InvoiceDetail"}, 200),
        (PATH, {"dataset": "BillingPeriod"}, 200),
    ],
)
def test_a_token_for_bills_alone_gets_no_file_with_charges(
    office: Office, path: str, query: dict[str, str], status: int
) -> None:
    client = api_client(office.cast.alice, scopes=("billing:invoice:read",))

    answer = client.get(path, {"month": "2026-10", **query})

    assert answer.status_code == status
    if status == 403:
        assert "billing:charge:read" in answer.json()["remedy"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"month": "2026-13"}, "month"),
        ({"month": "2026-10", "format": "xml"}, "format"),
        ({"month": "2026-10", "version": "1.2", "dataset": "InvoiceDetail"}, "version"),
    ],
)
def test_a_refusal_names_the_field(office: Office, query: dict[str, str], field: str) -> None:
    answer = api_client(office.cast.dora).get(PATH, query)

    assert problem(answer)[0] == 422
    assert answer.json()["field"] == field
