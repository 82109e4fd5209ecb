#!/usr/bin/env python
"""Django's command line for GPU Ledger."""

import os
import sys


def main() -> None:
    """Run one management command with the development settings unless told otherwise."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.development")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - Django first needs its settings named.

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
