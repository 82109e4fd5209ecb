"""`manage.py serve`: the web server's command line and the folder of its counts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from config.management.commands import serve


def test_the_command_line_says_where_and_how_many() -> None:
    command = serve.gunicorn_command(
        bind="127.0.0.1:9", metrics_bind="127.0.0.1:10", workers=3, threads=5
    )

    assert command[:4] == [sys.executable, "-m", "gunicorn", "config.wsgi:application"]
    assert command[4:8] == ["--bind", "127.0.0.1:9", "--bind", "127.0.0.1:10"]
    assert command[command.index("--workers") + 1] == "3"
    assert command[command.index("--threads") + 1] == "5"
    assert "--no-control-socket" in command


def test_gunicorn_takes_every_flag() -> None:
    command = serve.gunicorn_command(
        bind="127.0.0.1:9", metrics_bind="127.0.0.1:10", workers=1, threads=1
    )

    done = subprocess.run(
        [*command, "--check-config"],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings.test"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_counts_of_an_earlier_life_are_purged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "metrics"
    folder.mkdir()
    (folder / "counter_1.db").touch()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(folder))
    called: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _program, command: called.append(command))

    serve.Command().handle(bind="127.0.0.1:9", metrics_address="127.0.0.1", workers=1, threads=1)

    assert list(folder.iterdir()) == []
    assert [command[2] for command in called] == ["gunicorn"]
    assert f"127.0.0.1:{settings.METRICS_PORT}" in called[0]
