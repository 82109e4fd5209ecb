"""The planted bugs of `make mutants` fit the code they change."""

import runpy
from dataclasses import replace

from tests.architecture.source import ROOT


def test_each_planted_bug_has_its_text_once_and_its_tests() -> None:
    program = runpy.run_path(str(ROOT / "bin" / "mutants.py"), run_name="mutants")

    planted = program["read_mutants"](program["MUTANTS"])

    assert program["problems_of"](planted) == []
    assert len(planted) >= 40


def test_a_bug_in_a_replaced_sql_file_is_refused() -> None:
    program = runpy.run_path(str(ROOT / "bin" / "mutants.py"), run_name="mutants")
    (planted,) = (
        one
        for one in program["read_mutants"](program["MUTANTS"])
        if one.name == "suspension-admits"
    )
    replaced = replace(planted, file="quotas/sql/quotas_decide.v1.sql")

    assert program["problems_of"]([replaced]) == [
        "suspension-admits: quotas_decide.v2.sql replaces quotas/sql/quotas_decide.v1.sql."
    ]
