"""`manage.py renew_cluster_tokens`: give each cluster's token its successor at half of its time."""

import signal
import threading
from argparse import ArgumentParser
from pathlib import Path
from types import FrameType
from typing import Any, Final

import structlog
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connections

from tenants.adapters.kubernetes_tokens import renew_token, token_path
from tenants.domain.actors import system_actor
from tenants.domain.errors import SourceUnavailableError
from tenants.selectors.clock import database_now
from tenants.selectors.directory import clusters_with_tokens
from tenants.services.audit import audited_use
from tenants.services.clusters import note_credential

ACTOR: Final = system_actor("manage.renew_cluster_tokens")
SHARED: Final = (
    "An older cluster has the same token, and this one's answer would replace it. Put another file"
    " there for it."
)
logger = structlog.get_logger(__name__)


class Command(BaseCommand):
    """Renew the tokens of clusters."""

    help = "Renew each cluster's token, of a file, when half of its time is over."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take how often."""
        parser.add_argument(
            "--every", type=int, default=0, metavar="SECONDS", help="go on until SIGTERM"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Renew once, or until the process is stopped.

        Raises:
            CommandError: Some were not renewed.
        """
        failed = self._renew_all()
        if not options["every"]:
            if failed:
                raise CommandError(f"{failed} tokens were not renewed.")
            return
        stop = threading.Event()

        def end(number: int, frame: FrameType | None) -> None:
            del number, frame
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
        while not stop.wait(options["every"]):
            try:
                self._renew_all()
            except DatabaseError:  # One that is away is waited for.
                logger.exception("tenants.cluster_tokens.renewal_failed")
            connections.close_all()

    def _renew_all(self) -> int:
        failed = 0
        taken: set[Path] = set()
        for cluster in clusters_with_tokens():
            path = token_path(cluster.credential_reference)
            if path in taken:
                failed += 1
                logger.error("tenants.cluster_token.shared", cluster=cluster.slug)
                self.stderr.write(f"{cluster.slug}: {SHARED}")
                continue
            if path is not None:
                taken.add(path)
            now = database_now()
            try:
                with audited_use(slug=cluster.slug, actor=ACTOR, at=now):
                    done = renew_token(
                        slug=cluster.slug,
                        url=cluster.kubernetes_url,
                        reference=cluster.credential_reference,
                        at=now,
                    )
            except SourceUnavailableError as error:
                failed += 1
                logger.exception(
                    "tenants.cluster_token.renewal_failed",
                    cluster=cluster.slug,
                    reason=error.reason,
                )
                self.stderr.write(f"{cluster.slug}: {error}")
                continue
            if done is not None:
                end_at, is_renewed = done
                note_credential(
                    cluster=cluster,
                    expires_at=end_at,
                    is_renewed=is_renewed,
                    actor=ACTOR,
                    at=database_now(),
                )
                self.stdout.write(f"{cluster.slug}: ends {end_at:%Y-%m-%dT%H:%MZ}")
        return failed
