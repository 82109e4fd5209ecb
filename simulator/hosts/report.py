"""The report of a run: a table of its outages, and what was billed beside the oracle's."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from simulator.hosts.ledger import RunOutcome
from simulator.hosts.outages import OutageLine

SECONDS_PER_HOUR = 3600


def print_line(line: OutageLine, console: Console) -> OutageLine:
    """Say that an outage is over; return its line for the table."""
    console.print(f"{line.at_seconds:6.0f} s  {line.title}: {_recovery(line)}")
    return line


def print_table(lines: Sequence[OutageLine], console: Console) -> None:
    """Print one row an outage."""
    table = Table(title="Outages", title_justify="left")
    table.add_column("At", justify="right")
    table.add_column("Outage")
    columns = ("Away", "Before", "Meanwhile", "Afterwards", "Recovered in", "Web answered")
    for name in columns:
        table.add_column(name, justify="right")
    for line in lines:
        rates = (f"{rate:.1f}/s" for rate in (line.before, line.during, line.after))
        made, asked = line.answered
        away = f"{line.away_seconds:.0f} s"
        at = f"{line.at_seconds:.0f} s"
        table.add_row(at, line.title, away, *rates, _recovery(line), f"{made} of {asked}")
    console.print(table)


def print_outcome(outcome: RunOutcome, rest_seconds: float, console: Console) -> int:
    """Print what was billed, and whether all holds; return how much does not."""
    console.print(f"After the last outage the rest of the backlog took {rest_seconds:.0f} s.")
    table = Table(title="Unit-hours billed", title_justify="left")
    table.add_column("Organization")
    table.add_column("Size")
    for name in ("Billed", "Oracle", "Difference"):
        table.add_column(name, justify="right")
    for slug, sizes in sorted(outcome.expected.items()):
        for size, expected in sorted(sizes.items()):
            billed = outcome.billed.get(slug, {}).get(size, 0)
            difference = f"{billed - expected} s"
            table.add_row(slug, size, _hours(billed), _hours(expected), difference)
    console.print(table)
    for one in outcome.invoices:
        console.print(
            f"{one.reference} {one.organization}: {one.invoiced_total:,.2f} {one.currency},"
            f" oracle {one.expected_total:,.2f} {one.currency}"
        )
    console.print(
        f"{outcome.sealed} of {outcome.windows} hours sealed, {outcome.seals} seals in the audit"
        f" trail, {outcome.leases} leases."
    )
    if outcome.crashes:
        console.print(f"Errors that were isolated: {dict(outcome.crashes)}.")
    problems = outcome.problems()
    for sentence in problems or ["All hours are billed once, to the second."]:
        console.print(sentence, style="bold red" if problems else "green")
    return len(problems)


def _hours(unit_seconds: int) -> str:
    return f"{unit_seconds / SECONDS_PER_HOUR:,.2f}"


def _recovery(line: OutageLine) -> str:
    return "-" if line.recovery_seconds is None else f"{line.recovery_seconds:.0f} s"
