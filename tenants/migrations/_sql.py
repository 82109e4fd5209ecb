"""Run numbered SQL files, for migrations of every app; landed files never change."""

from pathlib import Path

from django.db.migrations import RunSQL

ROOT = Path(__file__).resolve().parents[2]
REVERSE = "\n-- reverse\n"
"""The line of a file after which it undoes what it does before."""


def install(*paths: str) -> list[RunSQL]:
    """Return what runs each file, and its part after `-- reverse` on the way back."""
    parts = [(ROOT / path).read_text(encoding="utf-8").partition(REVERSE) for path in paths]
    return [RunSQL(forward, reverse) for forward, _, reverse in parts]
