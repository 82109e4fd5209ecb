"""The commands: as docs/reference/commands.md has them, and with arguments of other bytes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text("utf-8")
TARGETS = re.findall(r"^([a-z-]+): ##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
APPS = ("config", "tenants", "metering", "quotas", "billing")
OURS = {name: app for name, app in get_commands().items() if app in APPS}
DIVIDED = ("explain", "person", "webhook_secret")
"""Their options are those of their parts."""


def rows_of(command: str) -> str:
    """Return the rows of a command on the page, "" without one."""
    return "\n".join(re.findall(rf"^\| `{command}\b.*$", PAGE, re.MULTILINE))


def test_the_page_has_every_target_of_make() -> None:
    assert [name for name in TARGETS if name != "help" and not rows_of(f"make {name}")] == []


@pytest.mark.parametrize("name", OURS)
def test_the_page_has_every_command_with_options_that_it_takes(name: str) -> None:
    help_text = load_command_class(OURS[name], name).create_parser("manage.py", name).format_help()

    rows = rows_of(name)

    assert rows
    if name not in DIVIDED:
        named = re.findall(r"(?<=[ `])--[a-z][a-z-]+", rows)
        assert [option for option in named if option not in help_text] == []


@pytest.mark.parametrize("command", ["verify", "detach_month", "serve_admission"])
def test_a_command_with_other_bytes_than_utf8_is_refused_before_it_does_anything(
    command: str,
) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", command, b"2026-10\xff"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr == "manage.py: '2026-10\\udcff' is not UTF-8.\n"
