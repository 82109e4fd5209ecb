"""`manage.py explain`: from a usage record to its evidence, or why a pod was not charged.

manage.py explain record 4711
manage.py explain pod --cluster hopper --namespace team-nlp --name llm-train-0 --hours 48
"""

from argparse import ArgumentParser
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_datetime

from metering.access import access_usage_record
from metering.domain.explain import Step
from metering.selectors.explain import PodName, cluster_id_of, explain_pod, explain_record
from tenants.domain.actors import system_actor
from tenants.domain.archives import MonthArchivedError
from tenants.domain.errors import NotFoundError
from tenants.selectors.clock import database_now

ACTOR: Final = system_actor("manage.explain")
HOURS: Final = 24
HOURS_MAX: Final = 24 * 31


class Command(BaseCommand):
    """Explain one record or one pod."""

    help = "Explain a usage record back to its evidence, or why a pod was or was not charged."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take `record ID`, or `pod` with who and when."""
        asked = parser.add_subparsers(dest="asked", required=True)
        record = asked.add_parser("record", help="the way back from one usage record")
        record.add_argument("id", type=int, help="the record's id")
        pod = asked.add_parser("pod", help="why a pod was or was not charged, hour by hour")
        pod.add_argument("--cluster", required=True, help="the cluster's short name")
        pod.add_argument("--uid", default="", help="the pod's uid")
        pod.add_argument("--namespace", default="", help="with --name, instead of --uid")
        pod.add_argument("--name", default="", help="with --namespace, instead of --uid")
        pod.add_argument("--until", default="", help="end of the hours, ISO 8601; now without it")
        pod.add_argument(
            "--hours", type=int, default=HOURS, help=f"how many before, at most {HOURS_MAX}"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Print the explanation.

        Raises:
            CommandError: There is no such record or cluster, the question is incomplete, or the
                month is archived.
        """
        if options["asked"] == "record":
            self._tell(_record_steps(options["id"]))
        else:
            self._tell_pod(options)

    def _tell_pod(self, options: dict[str, Any]) -> None:
        until = _time(options["until"])
        if not 1 <= options["hours"] <= HOURS_MAX:
            raise CommandError(f"--hours is a whole number from 1 to {HOURS_MAX}.")
        try:
            begin_at = until - timedelta(hours=options["hours"])
        except OverflowError as error:
            raise CommandError("--until less --hours lies before the year 1.") from error
        try:
            found = explain_pod(_pod(options), begin_at=begin_at, end_at=until)
        except MonthArchivedError as error:
            raise CommandError(f"{error.message} {error.advice}") from error
        self._tell(found.steps)
        for hour in found.hours:
            self.stdout.write(
                f"{hour.start_at:%Y-%m-%d %H}:00Z  {hour.verdict.value:12}  "
                f"{hour.unit_seconds} unit-seconds, {hour.held_unit_seconds} held back"
            )
            self._tell(hour.steps, indent="    ")
        for verdict, sentence in sorted({(one.verdict.value, one.sentence) for one in found.hours}):
            self.stdout.write(f"{verdict}: {sentence}")

    def _tell(self, steps: Iterable[Step], *, indent: str = "") -> None:
        for step in steps:
            self.stdout.write(f"{indent}{step.heading}: {step.sentence}")
            for name, value in step.facts.items():
                if value not in {"", None}:
                    self.stdout.write(f"{indent}    {name}: {value}")


def _record_steps(record_id: int) -> tuple[Step, ...]:
    try:
        return explain_record(access_usage_record(ACTOR, record_id))
    except NotFoundError as error:
        raise CommandError(f"There is no usage record {record_id}.") from error


def _pod(options: dict[str, Any]) -> PodName:
    if not options["uid"] and not (options["namespace"] and options["name"]):
        raise CommandError("Give --uid, or --namespace and --name.")
    cluster_id = cluster_id_of(options["cluster"])
    if cluster_id is None:
        raise CommandError(f'There is no cluster "{options["cluster"]}".')
    return PodName(
        cluster_id=cluster_id,
        uid=options["uid"],
        namespace=options["namespace"],
        name=options["name"],
    )


def _time(text: str) -> datetime:
    if not text:
        return database_now()
    try:
        found = parse_datetime(text)
    except ValueError as error:
        raise CommandError(f"--until is no time: {error}.") from error
    if found is None or found.tzinfo is None:
        raise CommandError("--until is a time with its zone, such as 2026-10-05T14:00:00Z.")
    return found
