"""`manage.py webhook_manifests`: print the webhook configuration of a cluster."""

import re
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from quotas.domain.admission.secrets import SECRET
from quotas.domain.admission.webhook_configuration import (
    TIMEOUT_SECONDS,
    Registration,
    configurations,
    yaml_of,
)
from quotas.selectors.admission.facts import admission_facts, bound_namespaces
from quotas.selectors.enforcement.coverage import may_be_whole
from tenants.models.cluster import AdmissionMode, FailurePolicy
from tenants.selectors.clock import database_now

SERVICE = re.compile(r"[a-z0-9-]{1,63}/[a-z0-9-]{1,63}")
URL = re.compile(r"https://[^/?#\s]+(/[^?#\s]*[^/?#\s])?")
TIMEOUTS = range(1, 31)
STILL_WHOLE = (
    "Namespaces of {} may still have the whole limit each: apply this once every target of the "
    "cluster is applied again (GET /api/v1/enforcement-targets/?state=pending lists the others)."
)
CERTIFICATE = "-----BEGIN CERTIFICATE-----"
"""The line a certificate begins with; a text that only speaks of it holds none."""


class Command(BaseCommand):
    """Print the webhook configurations of one cluster."""

    help = "Print the ValidatingWebhookConfiguration and MutatingWebhookConfiguration of a cluster."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments: cluster, address of this service, and its CA."""
        parser.add_argument("--cluster", required=True, help="slug")
        where = parser.add_mutually_exclusive_group(required=True)
        where.add_argument("--service", default="", help="namespace/name of a Service there")
        where.add_argument("--url", default="", help="https://host:port where there is none")
        parser.add_argument("--port", type=int, default=8443, help="of the Service")
        parser.add_argument("--ca-file", required=True, help="PEM that signs our certificate")
        parser.add_argument("--exclude-namespace", action="append", default=[])
        parser.add_argument(
            "--only-bound-namespaces",
            action="store_true",
            help="review no other; follows new bindings where the cluster allows it",
        )
        parser.add_argument(
            "--secret-file", default="", help="of webhook_secret, for --secret-bind of the server"
        )
        parser.add_argument("--timeout", type=int, default=TIMEOUT_SECONDS, help="seconds")
        parser.add_argument(
            "--without-match-conditions", action="store_true", help="for servers before 1.28"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's own signature.
        """Print YAML for `kubectl apply`."""
        _refuse_wrong(options)
        at = database_now()
        facts = admission_facts(options["cluster"], at)
        if facts is None:
            raise CommandError(f"No active cluster is called {options['cluster']}.")
        # Where nothing is enforced nothing may be stopped either.
        may_fail = facts.mode is not AdmissionMode.ENFORCE or (
            facts.on_failure is FailurePolicy.ALLOW
        )
        registration = Registration(
            cluster=facts.slug,
            authority_pem=_authority(options["ca_file"]),
            service=options["service"],
            url=options["url"].rstrip("/"),
            failure_policy="Ignore" if may_fail else "Fail",
            own_namespaces=tuple(options["exclude_namespace"]),
            bound=(
                bound_namespaces(facts.cluster_id, at=at)
                if options["only_bound_namespaces"]
                else None
            ),
            offered=tuple(sorted({*facts.offered, *facts.classes})),
            has_conditions=not options["without_match_conditions"],
            secret=_secret(options["secret_file"]),
            port=options["port"],
            timeout_seconds=options["timeout"],
        )
        if may_fail and may_be_whole(facts.cluster_id):
            self.stderr.write(STILL_WHOLE.format(facts.slug))
        self.stdout.write(yaml_of(configurations(registration)), ending="")


def _refuse_wrong(options: dict[str, Any]) -> None:
    if options["service"] and SERVICE.fullmatch(options["service"]) is None:
        raise CommandError("--service takes namespace/name.")
    if options["url"] and URL.fullmatch(options["url"].rstrip("/")) is None:
        raise CommandError("--url takes https://host:port.")
    if options["only_bound_namespaces"] and settings.QUOTA_UNBOUND_NAMESPACES == "deny":
        raise CommandError("--only-bound-namespaces takes QUOTA_UNBOUND_NAMESPACES=allow.")
    if options["timeout"] not in TIMEOUTS:
        raise CommandError("--timeout takes 1 to 30 seconds.")


def _secret(path: str) -> str:
    if not path:
        return ""
    secret = _text_of(path).strip()
    if SECRET.fullmatch(secret) is None:
        raise CommandError(f"{path} holds no secret of webhook_secret.")
    return secret


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"Cannot read {path}.") from error


def _authority(path: str) -> str:
    text = _text_of(path)
    if CERTIFICATE not in text.splitlines():
        raise CommandError(f"{path} holds no certificate.")
    return text
