"""`manage.py demo`: a month of two simulated clusters metered, invoiced, and served."""

import signal
import subprocess
import sys
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from embedded.programs import EmbeddedServerError
from embedded.stack import ROOT, Stack
from simulator.demo.stage import Stage, console_on
from simulator.demo.world import World


class Command(BaseCommand):
    """Build the stage, play the month on it, and keep the service up until Ctrl-C."""

    help = "Run the demo: meter, price and invoice a simulated month; then serve it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take how to end and what to print."""
        parser.add_argument("--exit", action="store_true", help="stop after the summary")
        parser.add_argument("--json", action="store_true", help="print the summary as JSON")
        parser.add_argument("--pictures", action="store_true", help="take those of docs/pictures")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's own signature.
        """Run the demo.

        Raises:
            CommandError: A server does not start, or the invoices differ from the oracle's.
        """
        console = console_on(is_stderr=options["json"])
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            with Stack(ROOT / "var") as stack:
                stage = Stage(stack, console)
                world = stage.open()
                code = _play(stage, world, is_json=options["json"])
                if options["pictures"] and not code:
                    code = _take_pictures()
                if not options["exit"]:
                    _serve_on(console, code=code)
        except KeyboardInterrupt:
            console.print("Stopped.")
            return
        except EmbeddedServerError as error:
            raise CommandError(str(error)) from error
        if code:
            raise CommandError("The demo did not come to its end; see above.", returncode=code)


def _play(stage: Stage, world: World, *, is_json: bool) -> int:
    """Play the month while the web server answers; return 0 when the oracle agrees."""
    try:
        stage.fill(world)
    except EmbeddedServerError as error:
        stage.console.print(str(error), style="red", markup=False)
        return 1
    notes = [f"--note={note}" for note in stage.notes]
    return stage.play(*(["--json"] if is_json else []), *notes)


def _take_pictures() -> int:
    """Take the pictures of the documentation by a program of the checkout; return its status."""
    program = [sys.executable, str(ROOT / "bin" / "pictures.py")]
    return subprocess.run(program, cwd=ROOT, check=False).returncode  # noqa: S603 - Our own program.


def _serve_on(console: Console, *, code: int) -> None:
    """Keep every server until Ctrl-C, whatever became of the month."""
    if code:
        console.print("The month did not come to its end, for the reason above.", style="yellow")
        console.print(
            "The service runs on; Ctrl-C and `make demo` try the rest of the month again."
        )
    console.print("Ctrl-C stops everything; `make demo` continues.", style="dim")
    threading.Event().wait()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
