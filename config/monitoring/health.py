"""Health: whether this process is alive, and whether the service is ready.

`/healthz` uses no other system. `/readyz` checks in the database what must hold before requests are
served. The broker's state is reported only: an unavailable broker just delays work. So are workers
with wrong clocks: they refuse their own work, and requests are served meanwhile.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

import structlog
from django.apps import apps
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.utils import timezone
from django.utils.module_loading import module_has_submodule
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from config.celery import app, queue_names
from config.verification import checks
from tenants.admin.sign_in import PROXY_UNNAMED
from tenants.selectors.clock import clocks_off, offset_sentence, read_clock
from tenants.selectors.database_objects import RUNTIME_ROLE
from tenants.selectors.verification import verification_sentence
from tenants.services.clock import REFUSED_SECONDS
from tenants.services.wakeups import wake_ages

logger = structlog.get_logger(__name__)

BROKER_TIMEOUT_SECONDS = 1
STANDSTILL_SECONDS = 300
"""Each queue has a kind of work a minute, and no task but an export lasts longer than 240 s."""
FUNCTION = "metering_ensure_partitions(timestamptz, integer)"
"""The function the runtime role must be able to call: without partitions no usage is stored."""
_KEPT = ("refuses_delete", "refuses_truncate", "refuses_update")
FROZEN: dict[str, tuple[str, ...]] = {
    "billing_accruedusage": ("has_organization", *_KEPT),
    "billing_accruedwindow": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_accruedcorrection": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_billingperiod": ("begins_open", "closed_is_billed", *_KEPT),
    "billing_charge": ("comes_unbilled", "is_repriced", *_KEPT),
    "auth_user": ("change_is_audited", "is_audited", "name_is_plain"),
    "auth_user_groups": ("change_is_audited", "is_audited"),
    "auth_user_user_permissions": ("change_is_audited", "is_audited"),
    "billing_invoice": (
        "adds_up",
        "carried_adds_up",
        "currency_is_known",
        "refuses_delete",
        "refuses_insert",
        "refuses_truncate",
        "refuses_update",
    ),
    "billing_invoiceline": ("keeps_final", "refuses_truncate"),
    "billing_accountingmonth": ("is_over", *_KEPT),
    "billing_batchedentry": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_journalbatch": ("is_next", "refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_journalentry": ("currency_is_known", "is_balanced", "month_is_open", *_KEPT),
    "billing_duedate": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_documentfile": ("is_of_final", *_KEPT),
    "billing_documentdelivery": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_reminder": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_reminderstop": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_openingbalance": ("currency_is_known", *_KEPT),
    "billing_payment": ("currency_is_known", "keeps_payer", *_KEPT, "return_fits"),
    "billing_paymentallocation": ("fits", "refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_posting": ("is_balanced", "is_of_open_entry", *_KEPT),
    "billing_price": (
        "counts_changes",
        "keeps_charged",
        "no_gap",
        *_KEPT,
    ),
    "billing_pricedraft": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_dispute": ("fits", "refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_disputedline": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_disputemessage": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_writeoff": ("fits", "refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_repricing": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_issuer": ("refuses_delete", "refuses_update"),
    "billing_projectroute": ("is_own",),
    "billing_recipient": ("refuses_delete", "refuses_update"),
    "billing_runroute": ("keeps_final", "refuses_truncate"),
    "billing_taxrate": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_minimumcharge": ("currency_is_known", *_KEPT),
    "billing_tierschedule": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_taxtreatment": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "billing_invoiceseries": (
        "number_is_used",
        "refuses_delete",
        "refuses_insert",
        "refuses_truncate",
        "refuses_update",
    ),
    "billing_pricebook": ("checks_base", "currency_is_known", "keeps_base", "refuses_update"),
    "billing_customerclassmembership": ("counts_changes", "keeps_charged", *_KEPT),
    "billing_pricecalendar": (
        "counts_changes",
        "is_of_a_base",
        *_KEPT,
        "time_zone_is_known",
    ),
    "billing_pricebookassignment": (
        "counts_changes",
        "keeps_charged",
        *_KEPT,
    ),
    "metering_capacityrecord": (
        "checks_insert",
        "checks_update",
        "keeps_sealed",
        "refuses_truncate",
    ),
    "metering_catalogueversion": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "metering_meteringexception": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "metering_meteringwindow": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "metering_podallocation": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "metering_claimconsumer": ("refuses_delete", "refuses_truncate"),
    "metering_noderecord": ("refuses_delete", "refuses_truncate"),
    "metering_offereddevice": ("refuses_delete", "refuses_truncate"),
    "metering_queuedpod": ("refuses_delete", "refuses_truncate"),
    "metering_watchspan": ("refuses_delete", "refuses_truncate"),
    "metering_reconciliationdecision": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "metering_creditproposal": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "metering_devicefigure": ("checks_insert", "keeps_sealed", *_KEPT[1:]),
    "metering_nodelabelset": _KEPT,
    "metering_devicefact": _KEPT,
    "metering_deviceholder": ("checks_insert", *_KEPT),
    "metering_devicecoverage": _KEPT,
    "metering_deviceevent": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "metering_devicewindow": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "metering_usageactivity": (
        "checks_insert",
        "keeps_sealed",
        "refuses_truncate",
        "refuses_update",
    ),
    "metering_usagefact": ("numbers", "refuses_delete", "refuses_truncate", "refuses_update"),
    "metering_usagerecord": (
        "checks_insert",
        "keeps_sealed",
        "refuses_truncate",
        "refuses_update",
    ),
    "metering_usagecorrection": (
        "is_written",
        "moves_insert",
        "moves_update",
        *_KEPT,
    ),
    "metering_windowrecheck": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "quotas_quotagrant": (
        "names_holder",
        *_KEPT,
    ),
    "quotas_quotaloan": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "quotas_quotarequest": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "quotas_requeststep": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "quotas_quotasuspension": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "tenants_accountchange": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "tenants_invitation": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "tenants_apitoken": ("change_is_audited", "is_audited"),
    "tenants_archivedmonth": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "tenants_auditentry": ("leaf", "refuses_delete", "refuses_truncate", "refuses_update"),
    "tenants_membership": ("change_is_audited", "is_audited"),
    "tenants_namespacebinding": ("keeps_metered",),
    "tenants_organization": ("currency_is_known", "time_zone_is_known"),
    "tenants_project": ("refuses_delete", "refuses_update"),
    "tenants_verification": (
        "begins",
        "goes_on",
        *_KEPT,
    ),
    "quotas_preemptionaction": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "quotas_preemptionplan": ("refuses_delete", "refuses_truncate", "refuses_update"),
    "quotas_protectedwindow": ("refuses_delete", "refuses_truncate", "refuses_update"),
}
"""The triggers that freeze each ledger; a test holds this table against the migrated database."""

TIMEOUTS = {
    "lock_timeout": "2s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "30s",
}
"""What must be in force on every connection of the service, and what deploy/postgres sets."""

Problem = str
"""One sentence an operator may read; "" when all is well. It names no secret and no tenant."""


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - Django's own signature.
    """Answer that the process lives."""
    return JsonResponse({"status": "alive"})


@require_safe
@never_cache
def readyz(request: HttpRequest) -> JsonResponse:  # noqa: ARG001 - Django's own signature.
    """Answer 200 when requests can be served, else 503 with what is wrong."""
    problems = {name: _ask(name, question) for name, question in CHECKS.items()}
    is_ready = not any(problems.values())
    broker, workers = _broker_problems()
    body = {
        "status": "ready" if is_ready else "not_ready",
        "checks": {name: problem or "ok" for name, problem in problems.items()},
        "broker": broker or "ok",
        "workers": workers or "ok",
        "clocks": _ask_clocks(),
        "verification": _ask("verification", _verification_problem) or "ok",
        "proxies": proxy_problem() or "ok",
    }
    if not is_ready:
        logger.error("health.not_ready", **{k: v for k, v in problems.items() if v})
    return JsonResponse(body, status=200 if is_ready else 503)


def proxy_problem() -> Problem:
    """Return that people behind a proxy share one network; as far as this process has seen."""
    if not PROXY_UNNAMED.is_set():
        return ""
    return (
        "Requests carry X-Forwarded-For and TRUSTED_PROXIES is empty: behind a proxy all people"
        " share one network at sign-in. Set TRUSTED_PROXIES to the proxy's network."
    )


def _verification_problem() -> Problem:
    """Return what the last verification of the database found; it keeps no request waiting."""
    return verification_sentence(checks=list(checks()), at=timezone.now())


def _ask(name: str, question: Callable[[], Problem]) -> Problem:
    try:
        return question()
    except DatabaseError as error:
        logger.warning("health.check_failed", check=name, reason=str(error))
        return f"The database did not answer the question ({type(error).__name__}); see the log."


def _ask_clocks() -> list[Problem]:
    """Return the processes whose clocks were off lately; each refuses its own work."""
    try:
        return [f"{name}: {offset_sentence(seconds)}" for name, seconds in clocks_off().items()]
    except DatabaseError:
        return []


def role_problem() -> Problem:
    """Return why the connection is not the runtime role's, "" when it is."""
    is_member, is_superuser, owned = _row(
        "SELECT pg_has_role(current_user, %(role)s, 'MEMBER'), rolsuper,"
        # A watch that writes has temporary tables until it commits; they are not part of the
        # schema.
        " (SELECT count(*) FROM pg_tables WHERE tableowner = current_user"
        r"   AND schemaname NOT LIKE 'pg\_temp\_%%')"
        " FROM pg_roles WHERE rolname = current_user",
        {"role": RUNTIME_ROLE},
    )
    if not is_member:
        return f"DATABASE_URL names a role that is not a member of {RUNTIME_ROLE}."
    if is_superuser or owned:
        return "DATABASE_URL names a role that owns tables and could unfreeze ledgers."
    return ""


def timeout_problem() -> Problem:
    """Return which timeouts are not in force on the connection, "" when all are."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, quote_ident(current_user) FROM pg_settings"
            " WHERE name = ANY(%s) AND setting = '0' ORDER BY name",
            [list(TIMEOUTS)],
        )
        missing = cursor.fetchall()
    commands = " ".join(
        f"ALTER ROLE {role} SET {name} = '{TIMEOUTS[name]}';" for name, role in missing
    )
    return f"A lock or a statement may last for ever here. Run: {commands}" if missing else ""


def function_problem() -> Problem:
    """Return why PL/pgSQL functions cannot be called, "" when they can."""
    with connection.cursor() as cursor:
        cursor.execute("DO $$ BEGIN PERFORM 1; END $$")
    (is_allowed,) = _row(
        "SELECT coalesce(has_function_privilege(to_regprocedure(%(name)s), 'EXECUTE'), false)",
        {"name": FUNCTION},
    )
    return "" if is_allowed else f"The runtime role may not call {FUNCTION}, or it is missing."


def trigger_problem() -> Problem:
    """Return which ledgers are not frozen, "" when all are."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgname, tgenabled FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid"
            " WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace"
        )
        state = dict(cursor.fetchall())
    missing = sorted(required_triggers() - set(state))
    weak = sorted(name for name, enabled in state.items() if enabled != "A")
    if missing:
        return f"Ledger triggers are missing: {', '.join(missing)}. Run the migrations."
    if weak:
        return f"Ledger triggers are not ENABLE ALWAYS: {', '.join(weak)}. Find out who did it."
    return ""


def required_triggers() -> frozenset[str]:
    """Return the names of all triggers that freeze ledgers."""
    return frozenset(f"{table}_{end}" for table, ends in FROZEN.items() for end in ends)


def migration_problem() -> Problem:
    """Return which migrations are not applied, "" when all are."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT app || '.' || name FROM django_migrations")
        applied = {name for (name,) in cursor.fetchall()}
    names = ", ".join(sorted(known_migrations() - applied))
    return f"Migrations are not applied: {names}." if names else ""


@cache
def known_migrations() -> frozenset[str]:
    """Return the names of all migrations by their files; to import them takes half a second."""
    packages = {
        app.label: import_module(f"{app.name}.migrations")
        for app in apps.get_app_configs()
        if module_has_submodule(app.module, "migrations")
    }
    return frozenset(
        f"{label}.{module.name}"
        for label, package in packages.items()
        for module in iter_modules(package.__path__)
        if module.name[0] not in "_~"
    )


def clock_problem() -> Problem:
    """Return how far the clock of this process is off, "" while requests may be served by it."""
    reading = read_clock(timezone.now)
    return reading.sentence() if abs(reading.offset_seconds) > REFUSED_SECONDS else ""


CHECKS: dict[str, Callable[[], Problem]] = {
    "clock": clock_problem,
    "database_role": role_problem,
    "timeouts": timeout_problem,
    "functions": function_problem,
    "migrations": migration_problem,
    "ledger_triggers": trigger_problem,
}


def _row(statement: str, given: dict[str, str]) -> tuple[bool | int, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        found: tuple[bool | int, ...] = cursor.fetchone()
        return found


def _broker_problems() -> tuple[Problem, Problem]:
    """Return why the broker is of no use, and which queues no worker serves."""
    # A load balancer that asks waits a few seconds for all of the answer.
    limits = dict.fromkeys(("socket_timeout", "socket_connect_timeout"), BROKER_TIMEOUT_SECONDS)
    with app.connection_for_write(
        connect_timeout=BROKER_TIMEOUT_SECONDS, transport_options=limits
    ) as broker:
        try:
            broker.ensure_connection(max_retries=1, timeout=BROKER_TIMEOUT_SECONDS)
            ages = wake_ages(broker.default_channel.client, queue_names())
        except (OperationalError, RedisError) as error:
            logger.warning("health.broker_silent", reason=type(error).__name__)
            silent = "The broker does not answer; sweeps without it do its work, later."
            return silent, "Unknown while the broker does not answer."
    return "", worker_problem(ages)


def worker_problem(ages: Mapping[str, int | None]) -> Problem:
    """Return which queues no worker has served for a while, "" when all are served.

    Args:
        ages: Seconds since a worker last took a wake-up, by queue; None where none did.
    """
    idle = [name for name, age in ages.items() if age is None or age > STANDSTILL_SECONDS]
    if not idle:
        return ""
    logger.error("health.no_worker", queues=idle)
    return (
        f"No worker has served {', '.join(idle)} for {STANDSTILL_SECONDS} s or since the broker was"
        " emptied; what is due waits."
    )
