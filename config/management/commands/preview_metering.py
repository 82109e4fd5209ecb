"""`manage.py preview_metering`: what other metered hours of a cluster would do, before it is set.

It spans metering and billing, so it lives in the wiring. It changes nothing.
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_datetime

from billing.selectors.closing import ClosedHours, closed_hours
from metering.services.collection.metered_hours import MeteredHours, preview_metered_hours
from metering.tasks import policy_from_settings, process_source
from tenants.domain.actors import system_actor
from tenants.models import Cluster
from tenants.selectors.archives import archived_problems

ACTOR = system_actor("manage.preview_metering")


class Command(BaseCommand):
    """Print what a change of a cluster's metered hours would do."""

    help = "Print what a change of the hours that are metered of a cluster would do."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the cluster and its hours."""
        parser.add_argument("slug", help="Which cluster.")
        parser.add_argument("--from", dest="begin", help="First hour, such as 2026-10-01T00:00Z.")
        parser.add_argument("--until", help="First hour no longer metered; `none` for no end.")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Print the preview.

        Raises:
            CommandError: There is no such cluster, a time is not the start of a UTC hour, or hours
                that would be opened are archived.
        """
        cluster = Cluster.objects.filter(slug=options["slug"]).first()
        if cluster is None:
            raise CommandError(f"There is no cluster {options['slug']}.")
        begin = _hour(options["begin"]) if options["begin"] else cluster.metered_from
        until = cluster.metered_until
        if options["until"]:
            until = None if options["until"] == "none" else _hour(options["until"])
        _check_hours(cluster, begin=begin, until=until)
        found = preview_metered_hours(
            cluster=cluster,
            metered_from=begin,
            metered_until=until,
            source=process_source(),
            actor=ACTOR,
            policy=policy_from_settings(),
        )
        closed = closed_hours(cluster.pk, hours=found.opened)
        for line in _lines(found, closed=closed):
            self.stdout.write(line)


def _check_hours(cluster: Cluster, *, begin: datetime, until: datetime | None) -> None:
    if begin > cluster.metered_from:
        raise CommandError(
            f"--from: {cluster.slug} is metered from {_text(cluster.metered_from)}, and that may "
            "only become earlier. Name an earlier hour; to leave out later hours, waive them."
        )
    if until is not None and until <= begin:
        raise CommandError(
            f"--until: {_text(until)} is not after the first metered hour, {_text(begin)}. Name a "
            "later hour, or `none` for no end."
        )
    future = Cluster(metered_from=begin, metered_until=until)
    for problem in archived_problems(future, before=cluster):
        option = "--from" if problem.field == "metered_from" else "--until"
        raise CommandError(f"{option}: {problem.message}")


def _hour(text: str) -> datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.timestamp() % 3600:
        raise CommandError(f"{text} is not the start of a UTC hour, such as 2026-10-01T00:00Z.")
    return moment


def _lines(found: MeteredHours, *, closed: list[ClosedHours]) -> Iterator[str]:
    hours = found.opened
    if hours:
        yield f"Opened: {len(hours)} hours, {_text(hours[0])} to {_text(hours[-1])}."
        yield _memory_line(found)
    else:
        yield "Opened: 0 hours."
    yield f"Waived: {found.waived} hours that are not metered yet."
    yield f"Kept: {found.kept} hours outside that are metered already and stay billed."
    for month in closed:
        yield (
            f"Closed: {month.organization} {month.label}, {month.hours} of the opened hours. Their "
            "usage is charged in the period that is open then."
        )


def _memory_line(found: MeteredHours) -> str:
    if found.source_error:
        return (
            "Prometheus: not known how many of these hours it has samples of, up to "
            f"{len(found.opened)} will need a decision. {found.source_error} Try again when it "
            "answers."
        )
    if found.remembered_from is None:
        return "Prometheus: no samples of these hours. Each of them will need a decision."
    first = found.remembered_from
    known = sum(hour >= first for hour in found.opened)
    return (
        f"Prometheus: samples from {_text(first)} on, {known} of these hours. "
        f"{len(found.opened) - known} will need a decision."
    )


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%MZ}"
