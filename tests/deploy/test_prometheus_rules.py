"""Prometheus' rules: promtool reads and runs them, and no alert goes untested or unexplained."""

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from embedded.prometheus_programs import TOOL, find_prometheus
from tests.deploy.files import ROOT, yaml_of
from tests.support.sampling import sampled

FOLDER = ROOT / "deploy" / "prometheus"
RULES = sorted((FOLDER / "rules").glob("*.yml"))
TESTS = sorted((FOLDER / "tests").glob("*.yml"))
PAGE = ROOT / "docs" / "reference" / "waste-and-health.md"
RUN_SECONDS_MAX = 120
SEVERITIES = {"info", "warning", "critical"}


@pytest.fixture(scope="module")
def promtool() -> Path:
    """Return where promtool is."""
    folder = find_prometheus(ROOT / ".tools").folder
    assert folder is not None
    return folder / TOOL


def run(promtool: Path, *arguments: str, at: Path) -> subprocess.CompletedProcess[str]:
    """Return how promtool ended."""
    return subprocess.run(
        [promtool, *arguments],
        cwd=at,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )


@cache
def alerts() -> dict[str, dict[str, Any]]:
    """Return every alert by its name."""
    return {
        rule["alert"]: rule
        for path in RULES
        for group in yaml_of(path.read_text("utf-8"))["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }


def checks() -> list[dict[str, Any]]:
    """Return every expectation of the rules' own tests."""
    return [
        check
        for path in TESTS
        for test in yaml_of(path.read_text("utf-8"))["tests"]
        for check in test["alert_rule_test"]
    ]


def test_there_are_rules_and_each_file_has_its_tests() -> None:
    assert [path.name for path in RULES] == ["devices.yml", "ledger.yml", "waste.yml"]
    assert [path.name for path in TESTS] == [path.name for path in RULES]


def test_promtool_reads_the_rules(promtool: Path) -> None:
    ended = run(promtool, "check", "rules", *map(str, RULES), at=FOLDER)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("SUCCESS") == len(RULES)


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_the_rules_do_what_their_tests_say(promtool: Path, path: Path) -> None:
    ended = run(promtool, "test", "rules", path.name, at=path.parent)

    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    sampled(
        [
            ("devices.yml", "throttled_ratio > 0.05", "throttled_ratio > 0.04"),
            ("waste.yml", "activity_1h < 0.2)", "activity_1h < 0.1)"),
            ("waste.yml", "[1h]) > 150", "[1h]) > 1500"),
            ("waste.yml", ") >= 5\n", ") >= 95\n"),
            ("devices.yml", "unless (gpu_ledger:device:xid ==", "unless (gpu_ledger:device:xid <"),
            ("ledger.yml", "age_seconds > 7200", "age_seconds > 7199"),
        ],
        every=6,
    ),
)
def test_a_changed_threshold_is_caught(
    promtool: Path, tmp_path: Path, name: str, right: str, wrong: str
) -> None:
    shutil.copytree(FOLDER, tmp_path / "prometheus")
    rules = tmp_path / "prometheus" / "rules" / name
    text = rules.read_text("utf-8")
    assert text.count(right) == 1
    rules.write_text(text.replace(right, wrong), "utf-8")

    ended = run(promtool, "test", "rules", name, at=tmp_path / "prometheus" / "tests")

    assert ended.returncode == 1
    assert "FAILED" in ended.stdout + ended.stderr


def test_every_alert_is_seen_to_fire_and_to_be_silent() -> None:
    fires = {check["alertname"] for check in checks() if check["exp_alerts"]}
    is_silent = {check["alertname"] for check in checks() if not check["exp_alerts"]}

    assert fires == set(alerts())
    assert is_silent == set(alerts())


@pytest.mark.parametrize("name", sorted(alerts()))
def test_every_alert_says_what_is_and_how_bad_it_is(name: str) -> None:
    rule = alerts()[name]

    assert rule["labels"]["severity"] in SEVERITIES
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["description"].endswith(".")
    assert f"`{name}`" in PAGE.read_text("utf-8")


def test_prometheus_of_the_compose_file_loads_the_rules() -> None:
    settings = yaml_of((FOLDER / "prometheus.yml").read_text("utf-8"))
    compose = yaml_of((ROOT / "docker-compose.yml").read_text("utf-8"))

    assert settings["rule_files"] == ["rules/*.yml"]
    assert (
        "./deploy/prometheus/rules:/etc/prometheus/rules:ro"
        in compose["services"]["prometheus"]["volumes"]
    )
