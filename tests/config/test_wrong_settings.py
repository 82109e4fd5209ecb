"""Wrong settings end every process at its start, and say which variables are to blame."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.env import SECRET_NAMES, Environment, EnvironmentInvalidError
from simulator.environment import CheckoutEnvironment

ROOT = Path(__file__).resolve().parents[2]
SECRET_TEXT = "hunter2"
RIGHT = {
    "SECRET_KEY": "s" * 32,
    "API_TOKEN_PEPPER": "p" * 32,
    "DATABASE_URL": "postgresql://app:x@127.0.0.1:1/gpu_ledger",
    "REDIS_URL": "redis://127.0.0.1:1/0",
}
WRONG = {
    "SECRET_KEY": SECRET_TEXT,
    "DATABASE_URL": f"mysql://app:{SECRET_TEXT}@db/x",
    "WINDOW_LATENESS_SECONDS": "soon",
    "USAGE_SOURCE_OPTIONS": "{not JSON",
}
NAMED = {*WRONG, "API_TOKEN_PEPPER", "REDIS_URL"}
"""What is wrong, and what is missing."""
CELERY = ("-m", "celery", "-A", "config")
ENTRIES = {
    "manage.py": ("manage.py", "check"),
    "the web server": ("-m", "gunicorn", "--check-config", "config.wsgi:application"),
    "a worker": (*CELERY, "worker", "-c", "1"),
    "beat": (*CELERY, "beat", "-s", "/nonexistent/schedule", "--pidfile="),
}


def started(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Return how a process of the service ended that was given these variables only."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={
            "PATH": os.defpath,
            "DJANGO_SETTINGS_MODULE": "config.settings.production",
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def named_in(text: str) -> set[str]:
    """Return the variables an error blames, one at the begin of a line each."""
    known = {*Environment.model_fields, *(f"{name}_FILE" for name in SECRET_NAMES)}
    return {line.strip().partition(":")[0] for line in text.splitlines()} & known


def read(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Environment:
    """Return the environment of a process that was given these variables only."""
    monkeypatch.setattr(os, "environ", dict(variables))
    return Environment.read()


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_process_starts_with_wrong_settings_and_all_are_named(entry: str) -> None:
    ended = started(*ENTRIES[entry], **WRONG)

    assert ended.returncode != 0
    assert named_in(ended.stderr + ended.stdout) == NAMED
    assert SECRET_TEXT not in ended.stderr + ended.stdout


def test_no_deployment_starts_with_a_simulated_backend() -> None:
    # What exports are delivered by follows NOTIFICATIONS.
    chosen = CheckoutEnvironment.SIMULATED.keys() - {"EXPORTS"}
    simulated = dict.fromkeys(chosen, "simulated")

    ended = started("manage.py", "check", **RIGHT, **simulated)

    assert ended.returncode != 0
    assert named_in(ended.stderr) == set(simulated)
    assert ended.stderr.count("simulated is for a checkout only") == len(simulated)


def test_right_settings_out_of_secret_files_are_enough(tmp_path: Path) -> None:
    variables = {}
    for name, value in RIGHT.items():
        (tmp_path / name).write_text(f"{value}\n", encoding="utf-8")
        variables[f"{name}_FILE"] = str(tmp_path / name)

    ended = started("manage.py", "check", **variables)

    assert (ended.returncode, ended.stdout) == (
        0,
        "System check identified no issues (0 silenced).\n",
    )


@pytest.mark.parametrize("name", RIGHT)
def test_each_required_variable_is_missed_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    others = {key: value for key, value in RIGHT.items() if key != name}

    with pytest.raises(EnvironmentInvalidError) as caught:
        read(monkeypatch, **others)

    assert str(caught.value) == f"The environment cannot be used:\n  {name}: Field required"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("USAGE_SOURCE_OPTIONS", "{"),
        ("USAGE_SOURCE_OPTIONS", '["ca_bundle"]'),
        ("USAGE_SOURCE_OPTIONS", ""),
        ("WASTE_THRESHOLDS", "{"),
        ("WASTE_THRESHOLDS", '{"idle_hour": 1}'),
        ("WASTE_THRESHOLDS", '{"idle_hours": 0}'),
        ("WASTE_THRESHOLDS", '{"idle_activity_ratio": 1.5}'),
        ("HOLE_SECONDS_MAX", "-1"),
        ("HOLE_SECONDS_MAX", "NaN"),
        ("WINDOW_LATENESS_SECONDS", "59"),
        ("WINDOW_LATENESS_SECONDS", "900.5"),
        ("SECRET_KEY", "s" * 31),
        ("INVOICE_SERIES", ""),
        ("INVOICE_SERIES", "A" * 13),
        ("FOUR_EYES", ""),
    ],
)
def test_a_value_at_the_edge_is_refused_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    with pytest.raises(EnvironmentInvalidError) as caught:
        read(monkeypatch, **{**RIGHT, name: value})

    assert named_in(str(caught.value)) == {name}
    assert str(caught.value).count("\n") == 1


def test_a_variable_that_was_replaced_is_refused_with_its_successor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(EnvironmentInvalidError) as caught:
        read(monkeypatch, **{**RIGHT, "MINIMUM_COVERAGE": "0.98", "FOUR_EYES": "perhaps"})

    assert "\n  MINIMUM_COVERAGE: " in str(caught.value)
    assert "\n  FOUR_EYES: " in str(caught.value)
    assert "set HOLE_SECONDS_MAX instead" in str(caught.value)
    with pytest.raises(EnvironmentInvalidError, match="HOLE_SECONDS_MAX"):
        read(monkeypatch, **RIGHT, MINIMUM_COVERAGE="0.98")


def test_json_is_read_into_the_sources_options(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(monkeypatch, **RIGHT, USAGE_SOURCE_OPTIONS='{"ca_bundle": "/etc/own.pem"}')

    assert found.USAGE_SOURCE_OPTIONS == {"ca_bundle": "/etc/own.pem"}


def test_a_secret_given_twice_is_the_one_that_was_said_outright(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = read(monkeypatch, **RIGHT, SECRET_KEY_FILE="/nonexistent/key")

    assert RIGHT["SECRET_KEY"] == found.SECRET_KEY


def test_every_unreadable_secret_file_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    given = {"SECRET_KEY_FILE": "/nonexistent/key", "REDIS_URL_FILE": str(binary)}

    with pytest.raises(EnvironmentInvalidError) as caught:
        read(monkeypatch, **given)

    assert str(caught.value).splitlines()[1:] == [
        "  SECRET_KEY_FILE: cannot read /nonexistent/key: No such file or directory.",
        f"  REDIS_URL_FILE: cannot read {binary}: it is not UTF-8 text.",
    ]


def test_a_secret_file_with_a_wrong_secret_blames_the_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "pepper"
    path.write_text(SECRET_TEXT, encoding="utf-8")
    others = {key: value for key, value in RIGHT.items() if key != "API_TOKEN_PEPPER"}

    with pytest.raises(EnvironmentInvalidError) as caught:
        read(monkeypatch, **others, API_TOKEN_PEPPER_FILE=str(path))

    assert named_in(str(caught.value)) == {"API_TOKEN_PEPPER"}
    assert SECRET_TEXT not in str(caught.value)
