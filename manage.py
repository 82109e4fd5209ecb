#!/usr/bin/env python
"""Django's command line for GPU Ledger."""

import os
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent / "config" / "settings" / "development.py"
"""Settings that a deployment leaves out."""


def main() -> None:
    """Run one management command, with the checkout's settings where no others are named."""
    kind = "development" if CHECKOUT.exists() else "production"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", f"config.settings.{kind}")
    _require_utf8(sys.argv[1:])
    if sys.argv[1:2] == ["serve_admission"]:
        from config.management.commands.serve_admission import Command  # noqa: PLC0415 - As below.

        # It becomes gunicorn, which sets Django up: all of it here would double the start.
        Command().run_from_argv(sys.argv)
        return
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - Django first needs its settings named.

    execute_from_command_line(sys.argv)


def _require_utf8(arguments: list[str]) -> None:
    """End where an argument has other bytes: no command could write it to the database."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            sys.exit(f"manage.py: {argument!a} is not UTF-8.")


if __name__ == "__main__":
    main()
