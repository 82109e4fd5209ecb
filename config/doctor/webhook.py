"""Check of a cluster's admission webhook: installed, with which policy, and for how long valid."""

import base64
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography import x509
from django.utils import timezone

from config.doctor.cluster_api import has_api, inspection_of, unanswered
from config.doctor.clusters import ClusterFacts
from config.doctor.findings import CheckResult, ok, problem, warning
from quotas.adapters.cluster_calls import ClusterCalls
from quotas.domain.enforcement.coverage import COUNTING, find_coverage
from tenants.adapters.guarded import check_peer, forbidden_networks
from tenants.domain.errors import SourceUnavailableError
from tenants.models.cluster import AdmissionMode

PAGE: Final = "docs/how-to/install-the-webhook.md"
NAMES: Final = ("webhook", "webhook-certificate")
CONNECT_SECONDS_MAX: Final = 5
LEFT_MIN: Final = timedelta(days=14)
"""cert-manager renews a certificate of 90 days 30 days before its end."""
HTTPS: Final = 443


def check_webhook(facts: ClusterFacts, calls: ClusterCalls) -> Iterator[CheckResult]:
    """Yield whether the API server asks this service about pods, and can until when."""
    cluster = facts.cluster
    if cluster.admission_mode == AdmissionMode.OFF:
        yield ok("webhook", "Admission is off: pods are not counted before they start.")
        return
    if not has_api(cluster):
        yield warning(
            "webhook",
            "Its API is not known: whether the webhook is installed cannot be seen.",
            "Set kubernetes_url and credential_reference of the cluster.",
            PAGE,
        )
        return
    try:
        webhooks = inspection_of(cluster, calls).webhooks()
    except SourceUnavailableError as error:
        yield unanswered("webhook", error)
        return
    yield _installed(facts, webhooks)
    if webhooks:
        yield _certificate(webhooks[0])


def _installed(facts: ClusterFacts, webhooks: tuple[Mapping[str, Any], ...]) -> CheckResult:
    """Return whether every pod with GPUs is asked about, and what happens without an answer."""
    cluster, mode = facts.cluster, facts.cluster.admission_mode
    policies = {str(one.get("name")): one.get("failurePolicy") for one in webhooks}
    if "Ignore" in {policies.get(name) for name in COUNTING}:
        if mode == AdmissionMode.WARN:
            return ok("webhook", "It is installed, in mode warn and with failurePolicy Ignore.")
        return warning(
            "webhook",
            "It is installed with failurePolicy Ignore: while it does not answer, pods start"
            " uncounted.",
            "Apply it with failurePolicy Fail once two replicas of the server run.",
            PAGE,
        )
    found = find_coverage(webhooks, cluster=cluster.slug, offered=cluster.offered_resources)
    if found.problem:
        return problem(
            "webhook",
            found.problem,
            f"Apply what `manage.py webhook_manifests --cluster {cluster.slug}` prints.",
            PAGE,
        )
    return ok("webhook", f"It is installed, in mode {mode} and with failurePolicy Fail.")


def _certificate(webhook: Mapping[str, Any]) -> CheckResult:
    """Return how long the certificate of the server is valid, by the authority that is trusted."""
    configured = webhook.get("clientConfig") or {}
    try:
        pem = base64.b64decode(configured.get("caBundle") or "").decode()
        authorities = x509.load_pem_x509_certificates(pem.encode())
    except ValueError:
        return problem(
            "webhook-certificate",
            "Its caBundle holds no certificate: the API server trusts no answer.",
            "Print the manifests again with --ca-file, or let cert-manager's injector fill it.",
            PAGE,
        )
    host, port, place = _place(configured)
    try:
        ends_at = _served_until(host, port, pem)
    except ssl.SSLCertVerificationError as error:
        return problem(
            "webhook-certificate",
            f"{place} shows a certificate that caBundle does not trust: {error.verify_message}.",
            "Issue it for this name by that authority, or apply the manifests with another one.",
            PAGE,
        )
    except SourceUnavailableError as error:
        return problem("webhook-certificate", f"{place}: {error}", "Use another address.", PAGE)
    except OSError as error:
        if "service" not in configured:
            return problem(
                "webhook-certificate",
                f"{place} does not answer ({type(error).__name__}).",
                "Start `manage.py serve_admission`, and let the API server and this host reach it.",
                PAGE,
            )
        # A Service has an address inside of its cluster only.
        ends_at = min(one.not_valid_after_utc for one in authorities)
        place = f"{place} is seen only inside of the cluster; its authority"
    return _validity(place, ends_at)


def _validity(place: str, ends_at: datetime) -> CheckResult:
    left = ends_at - timezone.now()
    days = left / timedelta(days=1)
    if left <= LEFT_MIN:
        state = problem if left <= timedelta() else warning
        return state(
            "webhook-certificate",
            f"{place}: valid for {max(days, 0):.1f} days, until {ends_at:%Y-%m-%d %H:%M} UTC.",
            "Issue a new certificate; with cert-manager see why it did not.",
            PAGE,
        )
    return ok("webhook-certificate", f"{place}: valid for {days:.0f} days.")


def _place(configured: Mapping[str, Any]) -> tuple[str, int, str]:
    """Return host and port, and how they are shown: a path may hold a secret."""
    if "service" in configured:
        service = configured["service"]
        host = f"{service['name']}.{service['namespace']}.svc"
        return host, int(service.get("port") or HTTPS), f"The Service {host}"
    parts = urlsplit(str(configured.get("url", "")))
    host, port = parts.hostname or "", parts.port or HTTPS
    return host, port, f"{host}:{port}"


def _served_until(host: str, port: int, authority_pem: str) -> datetime:
    """Return when the certificate that a server shows ends."""
    context = ssl.create_default_context(cadata=authority_pem)
    with socket.create_connection((host, port), timeout=CONNECT_SECONDS_MAX) as plain:
        check_peer(plain, forbidden_networks())
        with context.wrap_socket(plain, server_hostname=host) as secured:
            shown = secured.getpeercert() or {}
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(str(shown["notAfter"])), tz=UTC)
