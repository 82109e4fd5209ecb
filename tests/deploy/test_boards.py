"""Grafana's boards: every query reads a metric that there is, and Prometheus can parse it."""

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedded.prometheus_programs import TOOL, find_prometheus
from tests.config.test_docs_site import program
from tests.deploy.files import ROOT, yaml_of

BOARDS = {path.stem: path for path in sorted((ROOT / "deploy" / "grafana").glob("*.json"))}
RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))
VALUES = ROOT / "deploy" / "helm" / "gpu-ledger" / "values.yaml"
NAME = re.compile(r"\bgpu_ledger_\w+")
PARTS = ("_bucket", "_sum", "_count")
WIDTH = 24
"""Columns of a row in Grafana."""


@cache
def metrics() -> dict[str, str]:
    """Return the kind of each metric that our code makes: read from its source once."""
    return {name: kind for name, kind, _, _ in program("reference").metrics()}


def unknown(expression: str) -> set[str]:
    """Return the metrics of an expression that our code does not make."""
    known = metrics()
    names = {name + part for name, kind in known.items() if kind == "histogram" for part in PARTS}
    plain = {name for name, kind in known.items() if kind != "histogram"}
    return set(NAME.findall(expression)) - names - plain


def board(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(BOARDS[name].read_text("utf-8"))
    return found


def queries() -> Iterator[tuple[str, str]]:
    """Yield each query of a board under the name of its panel."""
    for name in BOARDS:
        for panel in board(name)["panels"]:
            for target in panel["targets"]:
                yield f"{name}: {panel['title']}", target["expr"]


def test_the_boards_are_of_operations_metering_quota_and_money() -> None:
    assert list(BOARDS) == ["metering", "money", "operations", "quota"]
    assert len({board(name)["uid"] for name in BOARDS}) == len(BOARDS)


def test_every_query_of_a_board_reads_metrics_that_there_are() -> None:
    assert {name: unknown(query) for name, query in queries() if unknown(query)} == {}
    assert all(NAME.search(query) for _, query in queries())


def test_every_metric_is_on_a_board() -> None:
    read = {name for _, query in queries() for name in NAME.findall(query)}
    shown = {name.removesuffix(part) for name in read for part in ("", *PARTS)}

    assert set(metrics()) - shown == set()


def test_every_rule_reads_metrics_that_there_are() -> None:
    rules = [
        rule
        for path in RULES
        for group in yaml_of(path.read_text("utf-8"))["groups"]
        for rule in group["rules"]
    ]

    assert {str(rule["expr"]): found for rule in rules if (found := unknown(rule["expr"]))} == {}
    # What rules record has colons in its name, and is no metric of the code.
    recorded = {rule["record"] for rule in rules if "record" in rule}
    used = {name for rule in rules for name in re.findall(r"\bgpu_ledger:[\w:]+", rule["expr"])}
    assert used - recorded == set()


def test_workers_scale_by_a_metric_that_there_is() -> None:
    workers = yaml_of(VALUES.read_text("utf-8"))["workers"]
    scaled = {
        name: one["scaling"]["query"] for name, one in workers.items() if len(one["scaling"]) > 1
    }

    assert list(scaled) == ["worker"]
    assert unknown(scaled["worker"]) == set()
    assert NAME.findall(scaled["worker"]) == ["gpu_ledger_windows"]


def test_a_metric_that_there_is_not_is_reported() -> None:
    assert unknown("sum(gpu_ledger_windows_total)") == {"gpu_ledger_windows_total"}
    assert unknown("rate(gpu_ledger_admission_seconds[5m])") == {"gpu_ledger_admission_seconds"}


def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    folder = find_prometheus(ROOT / ".tools").folder
    assert folder is not None
    rules = [
        {"record": f"board:query:{n}", "expr": query} for n, (_, query) in enumerate(queries())
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "boards", "rules": rules}]}))

    ended = subprocess.run(
        [folder / TOOL, "check", "rules", file], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("name", BOARDS)
def test_panels_of_a_board_have_titles_and_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board(name)["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert at["x"] + at["w"] <= WIDTH
        assert not cells & taken, panel["title"]
        taken |= cells
