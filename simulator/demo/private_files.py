"""Files with secrets: passwords of demo people, tokens of demo clusters."""

from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by its owner only."""
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(path)
