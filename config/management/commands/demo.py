"""`manage.py demo`: a month of two simulated clusters metered, invoiced, and served."""

import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.demo.stage import Stage, console_on
from config.embedded.programs import EmbeddedServerError
from config.embedded.stack import ROOT, Stack


class Command(BaseCommand):
    """Build the stage, play the month on it, and keep the service up until Ctrl-C."""

    help = "Run the demo: meter, price and invoice a simulated month; then serve it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take how to end and how to tell."""
        parser.add_argument("--exit", action="store_true", help="stop after the summary")
        parser.add_argument("--json", action="store_true", help="print the summary as JSON")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's own signature.
        """Run the demo.

        Raises:
            CommandError: A server does not start, or the invoices differ from the oracle's.
        """
        console = console_on(is_stderr=options["json"])
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            with Stack(ROOT / "var") as stack:
                code = self._play(Stage(stack, console), is_json=options["json"])
                if code == 0 and not options["exit"]:
                    console.print("Ctrl-C stops everything; `make demo` continues.", style="dim")
                    threading.Event().wait()
        except KeyboardInterrupt:
            console.print("Stopped.")
            return
        except EmbeddedServerError as error:
            raise CommandError(str(error)) from error
        if code:
            raise CommandError("The demo did not come to its end; see above.", returncode=code)

    @staticmethod
    def _play(stage: Stage, *, is_json: bool) -> int:
        stage.build()
        notes = [f"--note={note}" for note in stage.notes]
        return stage.play(*(["--json"] if is_json else []), *notes)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
