"""The environment: every variable the service reads, with its type, default and meaning.

A wrong value stops the process at start with the name of the variable; all wrong values are
reported in one error. `X_FILE` variables, as container secrets use them, are read by
`read_secret_files`.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AnyUrl,
    Field,
    FilePath,
    IPvAnyNetwork,
    StringConstraints,
    UrlConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from billing.domain.logo import logo_of
from config.settings.pairs import pairs_of
from metering.domain.efficiency.rules import thresholds_of

PostgresUrl = Annotated[
    AnyUrl, UrlConstraints(allowed_schemes=["postgresql", "postgres"], host_required=False)
]
RedisUrl = Annotated[
    AnyUrl, UrlConstraints(allowed_schemes=["redis", "rediss", "redis+socket"], host_required=False)
]
ClusterSlug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,63}$")]
SECRET_NAMES = (
    "SECRET_KEY",
    "API_TOKEN_PEPPER",
    "DATABASE_URL",
    "DATABASE_OWNER_URL",
    "DATABASE_REPLICA_URL",
    "REDIS_URL",
    "EMAIL_URL",
)
MAIL_URL = r"^$|^(smtp|smtps)://[!-~]+$|^console:$"
"""`smtp://user:password@host:587?starttls=true`, `smtps://...`, `console:`; escapes as in URLs."""

SENTINEL = r"[A-Za-z0-9.-]+:[0-9]{1,5}"

REPLACED: Mapping[str, str] = {"MINIMUM_COVERAGE": "HOLE_SECONDS_MAX"}
"""Variables that are no longer read, and what is set instead."""
RECHECK_SECONDS_MIN = 600
"""Sooner than this after its end nothing is sealed."""
DUNNING_DAYS_MAX = 365
SERIES = r"^[A-Z0-9-]{1,12}$"
SERIES_FORM = "capital letters, digits, hyphens; 1 to 12"


class EnvironmentInvalidError(Exception):
    """Raised at start when variables are missing or wrong; the text names each."""


class Environment(BaseSettings):
    """Values from the environment. Field names are variable names."""

    model_config = SettingsConfigDict(case_sensitive=False, extra="ignore", frozen=True)

    SIMULATED: ClassVar[Mapping[str, str]] = {}
    """By variable, the backend that plays the outside world; a deployment has none."""

    SECRET_KEY: str = Field(min_length=32)
    API_TOKEN_PEPPER: str = Field(min_length=32)
    DATABASE_URL: PostgresUrl
    """The runtime role, which owns no table."""
    DATABASE_OWNER_URL: PostgresUrl | None = None
    """The role that owns the tables; needed by `migrate --database owner` only."""
    DATABASE_REPLICA_URL: PostgresUrl | None = None
    """A streaming replica, as the runtime role, for cost reports and exports."""
    REPLICA_LAG_SECONDS_MAX: int = Field(default=60, ge=1, le=86_400)
    """How far the replica may be behind before reports read the primary instead."""
    REDIS_URL: RedisUrl
    REDIS_SENTINELS: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), title="`host:port`, separated by commas"
    )
    """Sentinels; the host of REDIS_URL is then the name of the primary that they know."""
    ALLOWED_HOSTS: Annotated[tuple[str, ...], NoDecode] = ()
    PUBLIC_URL: AnyUrl = AnyUrl("http://127.0.0.1:8000")
    SESSION_IDLE_SECONDS: int = Field(default=3_600, ge=300, le=86_400)
    """After so long without a request a browser has to sign in again."""
    SESSION_MAX_SECONDS: int = Field(default=43_200, ge=300, le=604_800)
    """After so long a browser has to sign in again, however much it was used."""
    API_REQUESTS_PER_MINUTE: int = Field(default=1_200, ge=0, le=1_000_000)
    """Of one account over REST; 0 for any number."""
    LOG_LEVEL: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    LOG_FORMAT: Literal["json", "console"] = "json"
    DEDICATED_CLUSTERS: Annotated[tuple[ClusterSlug, ...], NoDecode] = Field(
        default=(), title="slugs, separated by commas"
    )
    """Clusters whose Prometheus only workers of their own query, those of `metering.<slug>`."""
    USAGE_SOURCE: Literal["prometheus", "simulated"] = "prometheus"
    USAGE_SOURCE_OPTIONS: Annotated[dict[str, Any], NoDecode] = Field(default_factory=dict)
    """JSON: what the usage source is made with, such as `{"ca_bundle": "/etc/ssl/own.pem"}`."""
    CLUSTER_WATCH: Literal["kubernetes", "simulated"] = "kubernetes"
    CLUSTER_WATCH_OPTIONS: Annotated[dict[str, Any], NoDecode] = Field(default_factory=dict)
    """JSON: what the watch is made with, such as `{"stall_seconds": 120}`."""
    WATCH_HEARTBEAT_SECONDS: int = Field(default=10, ge=1, le=10)
    """Heartbeat interval of a watch; after three missed ones it counts as blind."""
    WATCH_LEASE_SECONDS: int = Field(default=30, ge=10, le=300)
    """How long another process waits for the one that leads a watch."""
    WATCH_RELIST_SECONDS: int = Field(default=600, ge=60, le=86_400)
    """Between two full lists of a watched cluster, which repair what may have drifted."""
    QUOTA_ENFORCER: Literal["kubernetes", "simulated"] = "kubernetes"
    WORKLOAD_EVICTOR: Literal["kubernetes", "simulated"] = "kubernetes"
    PREEMPTION_GRACE_SECONDS: int = Field(default=300, ge=0, le=86_400)
    """Between the notice that a plan is executed and its first step."""
    PREEMPTION_AFTER_SECONDS: int = Field(default=900, ge=60, le=86_400)
    """How long a tenant is over its limits before a plan is made by itself."""
    BURST_PRIORITY_CLASSES: Annotated[tuple[str, ...], NoDecode] = ("gpu-ledger-burst",)
    """Pods of these PriorityClasses are preemptible and count against burst units only."""
    RESERVATION_TTL_SECONDS: int = Field(default=120, ge=10, le=3_600)
    """How long an admitted pod may stay unseen by the watch before its units are free again."""
    RESERVATION_KEPT_DAYS: int = Field(default=65, ge=7, le=3_650)
    """How long a released reservation is kept; far longer than an API server may ask again."""
    REFUSALS_KEPT_DAYS: int = Field(default=90, ge=7, le=3_650)
    """How long a refusal is kept by itself after its last try."""
    QUOTA_UNBOUND_NAMESPACES: Literal["deny", "allow"] = "deny"
    ADMISSION_DEADLINE_SECONDS: int = Field(default=2, ge=1, le=9)
    """How long one question of an API server may take; below its webhook's own timeout."""
    ADMISSION_CLIENT_NAMES: Annotated[dict[str, tuple[str, ...]], NoDecode] = Field(
        default_factory=dict,
        title="`cluster=name` with more names after a bar, separated by commas, "
        'or JSON `{"cluster": ["name"]}`',
    )
    """By cluster, common names of the certificates its API servers may show, as JSON or as
    `cluster=name|name,...`; of a cluster that is not named, its slug alone."""
    COST_ESTIMATOR: Literal["billing", "none"] = "billing"
    """Source of the estimated cost of a quota request, and of use that exceptions hold back."""
    NOTIFICATIONS: Literal["send", "simulated"] = "send"
    NOTIFICATIONS_KEPT_DAYS: int = Field(default=90, ge=90, le=3_650)
    """At least the longest reminder time before a grant's end: else it would be notified twice."""
    EXPORTS_KEPT_DAYS: int = Field(default=30, ge=1, le=3_650)
    ARCHIVE_DIR: Path | None = Field(default=None, title="absolute path")
    """Where workers write the archives of months."""
    ARCHIVE_AFTER_MONTHS: Annotated[dict[str, int], NoDecode] = Field(
        default_factory=dict, title="`table=months`, separated by commas"
    )
    """How many whole months of a table follow one before it is archived; others never are."""
    EMAIL_URL: str = Field(default="", pattern=MAIL_URL, title="URL")
    """The mail server; without one no mail is sent."""
    EMAIL_FROM: str = "gpu-ledger@localhost"
    WEBHOOK_ALLOWED_NETWORKS: Annotated[tuple[IPvAnyNetwork, ...], NoDecode] = ()
    """Private ranges in which webhooks may be."""
    WEBHOOK_CLEAR_TEXT_HOSTS: Annotated[tuple[str, ...], NoDecode] = ()
    """Hosts whose webhooks may be called over http."""
    WEBHOOK_CA_FILE: str = Field(default="", title="path")
    """Certificates to trust for webhooks, beside the system's."""
    CLUSTER_SECRETS_DIR: Path = Field(default=Path("/run/clusters"), title="absolute path")
    """Where the files are that clusters' references name; nothing outside is read for them."""
    WINDOW_LATENESS_SECONDS: int = Field(default=900, ge=60, le=86_400)
    """How long after its end a window is first collected; also the grace before an invoice."""
    HOLE_SECONDS_MAX: int = Field(default=180, ge=0, le=600)
    """The longest hole in the observations of an hour with which it is sealed unattended."""
    GAP_POLICY: Literal["wait", "accept", "waive", "last_known", "hold"] = "wait"
    """What to do with an hour with too few observations; "wait" leaves it to a person."""
    WASTE_THRESHOLDS: Annotated[dict[str, Any], NoDecode] = Field(default_factory=dict)
    """JSON: thresholds of waste to replace, such as `{"idle_hours": 2}`."""
    RECHECK_SECONDS: Annotated[tuple[int, ...], NoDecode] = Field(
        default=(3_600, 21_600, 86_400),
        title=f"whole numbers from {RECHECK_SECONDS_MIN}, separated by commas",
    )
    """How long after its end a sealed hour is checked again, once each."""
    RECHECK_RETENTION_SECONDS: int = Field(default=31_536_000, ge=86_400, le=315_360_000)
    """Age from which an hour is not checked again: how long Prometheus keeps its samples."""
    POST_LATE_USAGE: bool = True
    """Whether late usage is posted automatically; otherwise a person decides."""
    FOUR_EYES: bool = True
    """Whether another person must finalize a drafted invoice and approve a usage correction."""
    ISSUER_NAME: str = "GPU Platform"
    ISSUER_ADDRESS: str = ""
    ISSUER_TAX_ID: str = ""
    ISSUER_BANK_ACCOUNT: str = ""
    """IBAN, or number and bank, that customers pay to."""
    ISSUER_COUNTRY: str = Field(default="", pattern=r"^([A-Z]{2})?$", title="two capital letters")
    """ISO 3166-1 alpha-2."""
    ISSUER_LOGO: FilePath | None = None
    """SVG or PNG, printed at the head of documents of the site's own issuer."""
    ISSUER_LOGOS: Annotated[dict[str, FilePath], NoDecode] = Field(default_factory=dict)
    """Those of other issuers, by the name that is printed."""
    USAGE_ANNEX: bool = False
    """Whether an annex of an invoice may name persons and what each of them used."""
    E_INVOICES: Literal["off", "zugferd"] = "off"
    """Whether final documents get an e-invoice of EN 16931, inside of the PDF and as UBL."""
    INVOICE_SERIES: str = Field(default="GL", pattern=SERIES, title=SERIES_FORM)
    CREDIT_NOTE_SERIES: str = Field(default="GL-CN", pattern=SERIES, title=SERIES_FORM)
    DEBIT_NOTE_SERIES: str = Field(default="GL-DN", pattern=SERIES, title=SERIES_FORM)
    INVOICE_FIRST_NUMBER: int = Field(default=1, ge=1, le=900_000)
    """The first number of invoices, of credit notes and of debit notes, of each year."""
    PAYMENT_DAYS: int = Field(default=30, ge=0, le=365)
    """From the date of an invoice to its due date."""
    CARRY_MONTHS: int = Field(default=0, ge=0, le=120)
    """How long a balance is carried instead of being given back, or asked for; 0 for never."""
    CARRY_BELOW: Annotated[dict[str, Decimal], NoDecode] = Field(
        default_factory=dict, title="`currency=amount`, separated by commas"
    )
    """The smallest amounts that are asked for, such as "EUR=5,JPY=500"."""
    DUNNING_DAYS: Annotated[tuple[int, ...], NoDecode] = Field(
        default=(), title=f"whole numbers from 1 to {DUNNING_DAYS_MAX}, separated by commas"
    )
    """Days after its due date at which an invoice is reminded of, a level each; none by default."""
    DATEV_CONSULTANT: int = Field(default=1001, ge=1001, le=9_999_999)
    DATEV_CLIENT: int = Field(default=1, ge=1, le=99_999)
    """Numbers of tax consultant and client in journal batches for DATEV."""
    SAP_COMPANY_CODE: str = Field(
        default="1000", pattern=r"^[A-Za-z0-9]{1,4}$", title="up to 4 letters and digits"
    )
    SAP_DOCUMENT_TYPE: str = Field(
        default="SA", pattern=r"^[A-Za-z0-9]{1,2}$", title="up to 2 letters and digits"
    )
    """Company code and document type of journal batches for SAP."""
    NETSUITE_SUBSIDIARY: str = Field(default="", max_length=100)
    """Name of the subsidiary in journal batches for NetSuite."""
    METRICS_PORT: int = Field(default=8001, ge=1, le=65_535)
    """Where `serve` answers /metrics, and nothing else."""
    TRUSTED_PROXIES: Annotated[tuple[IPvAnyNetwork, ...], NoDecode] = ()
    """Networks of proxies whose X-Forwarded-For says where a request comes from."""
    BREACHED_PASSWORDS_FILE: FilePath | None = None
    """Lines of `SHA1:count` sorted by SHA-1; passwords in it are refused."""
    STATIC_ROOT: Path = Path("staticfiles")

    @field_validator(
        "ALLOWED_HOSTS",
        "BURST_PRIORITY_CLASSES",
        "DEDICATED_CLUSTERS",
        "DUNNING_DAYS",
        "RECHECK_SECONDS",
        "REDIS_SENTINELS",
        "TRUSTED_PROXIES",
        "WEBHOOK_ALLOWED_NETWORKS",
        "WEBHOOK_CLEAR_TEXT_HOSTS",
        mode="before",
    )
    @classmethod
    def _split_list(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator(
        "USAGE_SOURCE_OPTIONS",
        "CLUSTER_WATCH_OPTIONS",
        "WASTE_THRESHOLDS",
        "ISSUER_LOGOS",
        mode="before",
    )
    @classmethod
    def _read_json(cls, value: object) -> object:
        """Read JSON here: what cannot be decoded outside hides every other wrong variable."""
        return json.loads(value, parse_float=Decimal) if isinstance(value, str) else value

    @field_validator("ADMISSION_CLIENT_NAMES", "ARCHIVE_AFTER_MONTHS", "CARRY_BELOW", mode="before")
    @classmethod
    def _split_pairs(cls, value: object, info: ValidationInfo) -> object:
        return pairs_of(str(info.field_name), value)

    @field_validator(
        "USAGE_SOURCE", "CLUSTER_WATCH", "QUOTA_ENFORCER", "WORKLOAD_EVICTOR", "NOTIFICATIONS"
    )
    @classmethod
    def _refuse_simulated(cls, value: str, info: ValidationInfo) -> str:
        if value == "simulated" and info.field_name not in cls.SIMULATED:
            raise ValueError("simulated is for a checkout only. Set another value, or none.")
        return value

    @field_validator("REDIS_SENTINELS")
    @classmethod
    def _require_primary(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if any(re.fullmatch(SENTINEL, one) is None for one in value):
            raise ValueError("Each must be host:port.")
        url = info.data.get("REDIS_URL")
        if value and url is not None and (url.scheme != "redis" or not url.host):
            raise ValueError("REDIS_URL must be redis:// with the name of the primary as its host.")
        return value

    @field_validator("ARCHIVE_DIR", "CLUSTER_SECRETS_DIR")
    @classmethod
    def _refuse_all_files(cls, value: Path | None) -> Path | None:
        if value is not None and (not value.is_absolute() or value.resolve() == Path("/")):
            raise ValueError("Name a directory of its own, as an absolute path.")
        return value

    @field_validator("ARCHIVE_AFTER_MONTHS")
    @classmethod
    def _require_directory(cls, value: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        if value and info.data.get("ARCHIVE_DIR", value) is None:
            raise ValueError("Set ARCHIVE_DIR too: months are archived there.")
        return value

    @field_validator("ISSUER_LOGO")
    @classmethod
    def _require_picture(cls, value: Path | None) -> Path | None:
        """Refuse a file that is no picture: an OSError would hide every other wrong variable."""
        if value is not None:
            try:
                logo_of(value.read_bytes())
            except OSError as error:
                raise ValueError(f"{value} cannot be read: {error.strerror}.") from error
        return value

    @field_validator("ISSUER_LOGOS")
    @classmethod
    def _require_pictures(cls, value: dict[str, Path]) -> dict[str, Path]:
        for path in value.values():
            cls._require_picture(path)
        return value

    @field_validator("RECHECK_SECONDS")
    @classmethod
    def _order_seconds(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(seconds < RECHECK_SECONDS_MIN for seconds in value):
            raise ValueError(f"Each must be at least {RECHECK_SECONDS_MIN}.")
        return tuple(sorted(set(value)))

    @field_validator("DUNNING_DAYS")
    @classmethod
    def _order_days(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(not 1 <= days <= DUNNING_DAYS_MAX for days in value):
            raise ValueError(f"Each must be from 1 to {DUNNING_DAYS_MAX}.")
        return tuple(sorted(set(value)))

    @field_validator("WASTE_THRESHOLDS", mode="after")
    @classmethod
    def _check_thresholds(cls, value: dict[str, Any]) -> dict[str, Any]:
        thresholds_of(value)
        return value

    @classmethod
    def read(cls, **defaults: object) -> Self:
        """Return the environment, or raise one error that names every wrong variable.

        Args:
            defaults: Values for variables that are not set, as development and tests give them.

        Raises:
            EnvironmentInvalidError: A variable is missing or has a value that cannot be used.
        """
        read_secret_files()
        given: dict[str, Any] = {k: v for k, v in defaults.items() if k not in os.environ}
        replaced = [
            f"{name}: it is no longer read. Remove it, and set {successor} instead."
            for name, successor in REPLACED.items()
            if name in os.environ
        ]
        try:
            found = cls(**given)
        except ValidationError as error:
            raise EnvironmentInvalidError(
                _format_problems([*replaced, *_sentences(error)])
            ) from None
        if replaced:
            raise EnvironmentInvalidError(_format_problems(replaced))
        return found


def read_secret_files() -> None:
    """Fill `X` from the file named by `X_FILE` for every secret, as container secrets are mounted.

    Raises:
        EnvironmentInvalidError: Named files cannot be read; the text names each.
    """
    problems = []
    for name in SECRET_NAMES:
        path = os.environ.get(f"{name}_FILE")
        if path and name not in os.environ:
            try:
                os.environ[name] = Path(path).read_text(encoding="utf-8").strip()
            except OSError as error:
                problems.append(f"{name}_FILE: cannot read {path}: {error.strerror}.")
            except UnicodeDecodeError:
                problems.append(f"{name}_FILE: cannot read {path}: it is not UTF-8 text.")
    if problems:
        raise EnvironmentInvalidError(_format_problems(problems))


def _sentences(error: ValidationError) -> list[str]:
    return [
        f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    ]


def _format_problems(problems: Sequence[str]) -> str:
    return "The environment cannot be used:\n  " + "\n  ".join(problems)
