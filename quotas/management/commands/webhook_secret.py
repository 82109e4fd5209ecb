"""`manage.py webhook_secret`: what a managed API server proves its cluster by."""

import secrets
from argparse import ArgumentParser
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from quotas.domain.admission.secrets import SECRET_BYTES
from quotas.selectors.admission.secrets import cluster_named
from quotas.services.admission.secrets import add_webhook_secret, end_webhook_secrets
from tenants.domain.actors import system_actor
from tenants.selectors.clock import database_now

ACTOR: Final = system_actor("manage.webhook_secret")


class Command(BaseCommand):
    """Add a secret to a cluster, or end old ones."""

    help = "Print a new secret for a cluster's webhook addresses, or end secrets."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments: which cluster, and what to do."""
        parser.add_argument("what", choices=("add", "end-old", "end-all"))
        parser.add_argument("--cluster", required=True, help="slug")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's own signature.
        """Print the secret once; only its hash is kept."""
        cluster = cluster_named(options["cluster"])
        if cluster is None:
            raise CommandError(f"No cluster is called {options['cluster']}.")
        terms: dict[str, Any] = {"cluster": cluster, "actor": ACTOR, "at": database_now()}
        if options["what"] == "add":
            secret = secrets.token_urlsafe(SECRET_BYTES)
            add_webhook_secret(secret=secret, **terms)
            self.stdout.write(secret)
            return
        is_newest_kept = options["what"] == "end-old"
        ended = end_webhook_secrets(is_newest_kept=is_newest_kept, **terms)
        self.stderr.write(f"{ended} secrets ended.")
