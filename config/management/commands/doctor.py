"""`manage.py doctor`: check an installation, and say what to do about what is wrong."""

import json
import shutil
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from io import StringIO
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from config.doctor.checks import installation_checks, select_checks, select_results
from config.doctor.findings import CheckResult, CheckState, InstallationCheck
from config.doctor.running import TIME_LIMIT_SECONDS, run_checks

STYLES: Final = {
    CheckState.OK: "green",
    CheckState.WARNING: "yellow",
    CheckState.PROBLEM: "bold red",
}
NAME_WIDTH: Final = 19
"""Of the longest name of a check."""
WIDTH_MAX: Final = 120
"""Longer lines are hard to read."""


class Command(BaseCommand):
    """Check an installation."""

    help = (
        "Check database, broker, workers, clusters, deliveries and billing of this installation,"
        " and print a remedy for each problem; exit with 1 where there is one. Nothing is changed."
    )
    # A mistake that they would refuse is what this command is to explain.
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take what to check, and in which form to print it."""
        parser.add_argument(
            "--only",
            action="append",
            default=[],
            metavar="NAME",
            help="a check such as broker, a cluster's slug, or both as watch:SLUG; repeatable",
        )
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--timeout",
            type=float,
            default=TIME_LIMIT_SECONDS,
            metavar="SECONDS",
            help=f"of each check of a server; {TIME_LIMIT_SECONDS} by default",
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Run the checks and print what they found.

        Raises:
            CommandError: A name is of no check.
            SystemExit: There is a problem.
        """
        known = installation_checks(at=timezone.now())
        chosen = select_checks(known, options["only"])
        if not chosen:
            names = sorted({name for check in known for name in check.names})
            raise CommandError(
                f"No check or cluster is named {', '.join(options['only'])}. Checks are"
                f" {', '.join(names)}."
            )
        found = _run(chosen, time_limit_seconds=options["timeout"])
        results = select_results(found, options["only"])
        if options["json"]:
            self.stdout.write(json.dumps(_document(results), indent=2))
        else:
            self.stdout.write(_table_text(results, has_colors=self.stdout.isatty()))
        if any(result.state == CheckState.PROBLEM for result in results):
            sys.exit(1)


def _run(checks: Sequence[InstallationCheck], *, time_limit_seconds: float) -> list[CheckResult]:
    """Return what the checks found; on a terminal, with a bar while they run."""
    columns = (BarColumn(20), MofNCompleteColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("checking", total=len(checks))

        def show(ended: InstallationCheck) -> None:
            bar.update(task, advance=1, description=f"{ended.section}: {ended.names[0]}")

        return run_checks(checks, progress=show, time_limit_seconds=time_limit_seconds)


def _document(results: Sequence[CheckResult]) -> dict[str, Any]:
    return {"counts": _counts(results), "results": [asdict(result) for result in results]}


def _counts(results: Sequence[CheckResult]) -> dict[str, int]:
    counted = Counter(result.state for result in results)
    return {state.value: counted[state] for state in CheckState}


def _table_text(results: Sequence[CheckResult], *, has_colors: bool) -> str:
    """Return the findings by section, each with its remedy below it, and how many there are."""
    text = StringIO()
    width = min(shutil.get_terminal_size().columns, WIDTH_MAX)
    console = Console(file=text, width=width, highlight=False, force_terminal=has_colors)
    for section in dict.fromkeys(result.section for result in results):
        console.print(Text(section, style="bold"))
        console.print(_section([one for one in results if one.section == section]))
        console.print()
    console.print(", ".join(f"{count} {state}" for state, count in _counts(results).items()))
    return text.getvalue()


def _section(results: Sequence[CheckResult]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(width=len(CheckState.PROBLEM))
    table.add_column(width=NAME_WIDTH)
    table.add_column(overflow="fold")
    for result in results:
        state = Text(result.state, style=STYLES[result.state])
        table.add_row(state, Text(result.check), _sentences(result))
    return table


def _sentences(result: CheckResult) -> Text:
    """Return what was found, and below it what to do."""
    text = Text(result.found)
    if result.remedy:
        text.append(f"\nRemedy: {result.remedy}", style="bold")
        text.append(f"\n{result.page}", style="dim")
    return text
