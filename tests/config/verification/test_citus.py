"""The page of what Citus would refuse names what the migrated database holds.

    GOLDEN=write .venv/bin/pytest tests/config/verification/test_citus.py

writes its lists anew after a migration that changes one of them.
"""

import os
from typing import Final

import psycopg
import pytest
from django.db import connection

from tests.architecture.source import ROOT
from tests.support.config.citus import RULES, conflict_lines, ddl_lines, read_plan

PAGE: Final = ROOT / "docs" / "reference" / "citus.md"
MARK: Final = "<!-- What follows is written by tests/config/verification/test_citus.py. -->"
IS_WRITING: Final = os.environ.get("GOLDEN") == "write"

PLANTED: Final = {
    "ALTER TABLE quotas_reservation ADD CONSTRAINT planted UNIQUE (cluster_id, pod_uid, id)": (
        "quotas_reservation",
        "unique",
    ),
    "ALTER TABLE quotas_reservation ALTER organization_id DROP NOT NULL": (
        "quotas_reservation",
        "column",
    ),
    "ALTER TABLE quotas_reservation ADD CONSTRAINT planted FOREIGN KEY"
    " (organization_id) REFERENCES tenants_project (id) ON DELETE SET NULL": (
        "quotas_reservation",
        "foreign key",
    ),
    "ALTER TABLE billing_dispute ADD planted_id bigint, ADD CONSTRAINT planted FOREIGN KEY"
    " (planted_id) REFERENCES billing_dailycost (id)": ("billing_dispute", "foreign key"),
    "ALTER TABLE tenants_project ADD planted_id uuid, ADD CONSTRAINT planted FOREIGN KEY"
    " (planted_id) REFERENCES billing_dispute (id) ON DELETE CASCADE": (
        "tenants_project",
        "foreign key",
    ),
    "CREATE TRIGGER planted BEFORE INSERT ON quotas_reservation FOR EACH ROW"
    " EXECUTE FUNCTION ledger_refuse()": ("quotas_reservation", "trigger"),
    "ALTER TABLE quotas_reservation ADD planted integer GENERATED ALWAYS AS IDENTITY": (
        "quotas_reservation",
        "identity",
    ),
    "CREATE POLICY planted ON quotas_reservation USING"
    " (project_id IN (SELECT id FROM tenants_project))": ("quotas_reservation", "policy"),
    "CREATE TABLE planted PARTITION OF billing_charge FOR VALUES FROM ('2031-01-01Z') TO"
    " ('2031-02-01Z') PARTITION BY HASH (window_start)": ("billing_charge", "partitions"),
}
"""A change to the schema, and the table and rule of the conflict that it adds."""


@pytest.mark.django_db
def test_the_page_names_every_conflict_and_the_statements() -> None:
    with connection.cursor() as cursor:
        plan = read_plan(cursor)
    lines = [
        MARK,
        "",
        "## Statements",
        "",
        "```sql",
        *ddl_lines(plan),
        "```",
        "",
        f"These {len(plan.local)} tables stay on the first server:",
        ", ".join(plan.local) + ".",
        "",
        f"## Conflicts: {len(plan.conflicts)}",
        *conflict_lines(plan),
    ]
    prose = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    written = prose + "\n".join(lines) + "\n"
    if IS_WRITING:
        PAGE.write_text(written, encoding="utf-8")

    assert PAGE.read_text(encoding="utf-8") == written


@pytest.mark.usefixtures("committed_db")
def test_a_change_that_citus_refuses_is_named(owner: psycopg.Connection) -> None:
    cursor = owner.cursor()
    before = set(read_plan(cursor).conflicts)
    assert {rule for _, rule in PLANTED.values()} == set(RULES)

    for change, expected in PLANTED.items():
        with owner.transaction(force_rollback=True):
            owner.execute(change.encode())
            added = set(read_plan(cursor).conflicts) - before

        assert {(one.table, one.rule) for one in added} == {expected}, change
