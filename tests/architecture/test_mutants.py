"""The planted bugs of `make mutants` fit the code they change."""

import runpy

from tests.architecture.source import ROOT


def test_each_planted_bug_has_its_text_once_and_its_tests() -> None:
    program = runpy.run_path(str(ROOT / "bin" / "mutants.py"), run_name="mutants")

    planted = program["read_mutants"](program["MUTANTS"])

    assert program["problems_of"](planted) == []
    assert len(planted) >= 40
