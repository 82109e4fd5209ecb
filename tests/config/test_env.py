"""The environment: every wrong variable is named at once, before anything starts."""

import json
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from config.env import Environment, EnvironmentInvalidError

GIVEN = {
    "SECRET_KEY": "s" * 32,
    "API_TOKEN_PEPPER": "p" * 32,
    "DATABASE_URL": "postgresql://app:x@db/gpu_ledger",
    "REDIS_URL": "redis://queue:6379/0",
}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what this process was given."""
    for name in Environment.model_fields:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SECRET_KEY", "short"),
        ("API_TOKEN_PEPPER", ""),
        ("DATABASE_URL", "sqlite:///db.sqlite3"),
        ("DATABASE_OWNER_URL", "gpu_ledger"),
        ("REDIS_URL", "amqp://queue"),
        ("REDIS_SENTINELS", "valkey-sentinel"),
        ("LOG_LEVEL", "LOUD"),
        ("USAGE_SOURCE", "guess"),
        ("CLUSTER_WATCH", "glance"),
        ("CLUSTER_WATCH_OPTIONS", "stall"),
        ("WATCH_HEARTBEAT_SECONDS", "11"),
        ("WATCH_LEASE_SECONDS", "9"),
        ("WATCH_RELIST_SECONDS", "59"),
        ("QUOTA_ENFORCER", "hope"),
        ("ADMISSION_CLIENT_NAMES", "apiserver"),
        ("ADMISSION_CLIENT_NAMES", "hopper="),
        ("ADMISSION_CLIENT_NAMES", "=apiserver"),
        ("ADMISSION_CLIENT_NAMES", '{"hopper": '),
        ("ARCHIVE_DIR", "archives"),
        ("ARCHIVE_DIR", "/"),
        ("ARCHIVE_AFTER_MONTHS", "usage=24"),
        ("ARCHIVE_AFTER_MONTHS", "usage"),
        ("ARCHIVE_AFTER_MONTHS", "invoices=24"),
        ("ARCHIVE_AFTER_MONTHS", "usage=0"),
        ("ARCHIVE_AFTER_MONTHS", "usage=1201"),
        ("CARRY_BELOW", "EUR"),
        ("WINDOW_LATENESS_SECONDS", "5"),
        ("HOLE_SECONDS_MAX", "601"),
        ("RECHECK_SECONDS", "0"),
        ("RECHECK_SECONDS", "3600,599"),
        ("RECHECK_RETENTION_SECONDS", "3600"),
        ("DUNNING_DAYS", "0"),
        ("DUNNING_DAYS", "7,366"),
        ("POST_LATE_USAGE", "maybe"),
        ("FOUR_EYES", "perhaps"),
        ("INVOICE_SERIES", "lower case"),
        ("PUBLIC_URL", "not a url"),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    for given, right in GIVEN.items():
        monkeypatch.setenv(given, right)
    monkeypatch.setenv(name, value)

    with pytest.raises(EnvironmentInvalidError, match=rf"\n  {name}: ") as caught:
        Environment.read()

    assert str(caught.value).count("\n") == 1


def test_rechecks_are_reported_in_seconds_and_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, right in GIVEN.items():
        monkeypatch.setenv(given, right)
    assert Environment.read().RECHECK_SECONDS == (3600, 21_600, 86_400)

    monkeypatch.setenv("RECHECK_SECONDS", "7200, 3600,7200,")

    assert Environment.read().RECHECK_SECONDS == (3600, 7200)


@pytest.mark.parametrize("name", ["USAGE_SOURCE_OPTIONS", "CLUSTER_WATCH_OPTIONS"])
def test_options_are_read_as_json(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for given, right in GIVEN.items():
        monkeypatch.setenv(given, right)
    monkeypatch.setenv(name, '{"seed": 7}')

    assert getattr(Environment.read(), name) == {"seed": 7}


def test_all_that_is_missing_is_reported_at_once_and_no_value_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_KEY", "hunter2")

    with pytest.raises(EnvironmentInvalidError) as caught:
        Environment.read()

    lines = str(caught.value).splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:]] == list(GIVEN)
    assert "hunter2" not in str(caught.value)


def test_what_is_set_outside_wins_over_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_FORMAT", "json")

    environment = Environment.read(**GIVEN, LOG_FORMAT="console", ALLOWED_HOSTS="a.example, b ,")

    assert environment.LOG_FORMAT == "json"
    assert environment.ALLOWED_HOSTS == ("a.example", "b")


@pytest.mark.parametrize("url", ["rediss://primary/0", "redis+socket://localhost/run/a.sock"])
def test_sentinels_need_the_name_of_a_primary_in_clear_text(url: str) -> None:
    given = {**GIVEN, "REDIS_URL": url, "REDIS_SENTINELS": "a:26379, b:26379"}

    with pytest.raises(EnvironmentInvalidError, match=r"REDIS_SENTINELS: .*name of the primary"):
        Environment.read(**given)

    named = Environment.read(**{**given, "REDIS_URL": "redis://primary/0"})
    assert named.REDIS_SENTINELS == ("a:26379", "b:26379")


def test_a_socket_is_a_broker_too() -> None:
    url = "redis+socket://:x@localhost/run/valkey.sock"

    assert str(Environment.read(**{**GIVEN, "REDIS_URL": url}).REDIS_URL) == url


@pytest.mark.parametrize(
    ("reported", "names"),
    [
        ("", {}),
        ("hopper=api", {"hopper": ("api",)}),
        (" hopper=api|api-2 , ampere=cn=x,", {"hopper": ("api", "api-2"), "ampere": ("cn=x",)}),
        ('{"hopper": ["a,b", "c"]}', {"hopper": ("a,b", "c")}),
    ],
)
def test_certificates_are_named_by_cluster(
    monkeypatch: pytest.MonkeyPatch, reported: str, names: dict[str, tuple[str, ...]]
) -> None:
    monkeypatch.setenv("ADMISSION_CLIENT_NAMES", reported)

    assert names == Environment.read(**GIVEN).ADMISSION_CLIENT_NAMES


def test_how_long_tables_are_kept_is_set_with_the_directory_of_archives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Environment.read(**GIVEN).ARCHIVE_AFTER_MONTHS == {}
    assert Environment.read(**GIVEN).ARCHIVE_DIR is None
    monkeypatch.setenv("ARCHIVE_AFTER_MONTHS", " usage=24, devices = 6 ,")
    with pytest.raises(EnvironmentInvalidError, match=r"\n  ARCHIVE_AFTER_MONTHS: .*ARCHIVE_DIR"):
        Environment.read(**GIVEN)

    monkeypatch.setenv("ARCHIVE_DIR", "/srv/archives")
    assert Environment.read(**GIVEN).ARCHIVE_AFTER_MONTHS == {"usage": 24, "devices": 6}

    monkeypatch.setenv("ARCHIVE_DIR", "archives")
    with pytest.raises(EnvironmentInvalidError) as refusal:
        Environment.read(**GIVEN)
    assert str(refusal.value).count("\n") == 1


@pytest.mark.parametrize("dunned", ["EUR=5", " EUR = 5.00 ,JPY=500,"])
def test_amounts_are_named_by_currency(monkeypatch: pytest.MonkeyPatch, dunned: str) -> None:
    monkeypatch.setenv("CARRY_BELOW", dunned)

    assert Environment.read(**GIVEN).CARRY_BELOW["EUR"] == 5

    monkeypatch.setenv("CARRY_BELOW", '{"EUR": 5}')
    with pytest.raises(EnvironmentInvalidError, match=r"\n  CARRY_BELOW: .*amount of a currency"):
        Environment.read(**GIVEN)


def test_the_trail_of_a_month_is_kept_for_34_days_after_its_end_whatever_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for given, right in GIVEN.items():
        monkeypatch.setenv(given, right)
    kept = timedelta(days=Environment.read().RESERVATION_KEPT_DAYS)
    months = [date(year, month, 1) for year in (2027, 2028) for month in range(1, 13)]

    after_the_end = {(begin + kept - end).days for begin, end in pairwise(months)}

    assert (kept.days, after_the_end) == (65, {34, 35, 36, 37})


def test_the_logo_of_the_issuer_is_a_picture_that_can_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    logo = tmp_path / "logo.svg"
    logo.write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ISSUER_LOGO", str(logo))
    assert logo == Environment.read().ISSUER_LOGO

    monkeypatch.setenv("ISSUER_LOGOS", json.dumps({"Labs": str(logo)}))
    assert {"Labs": logo} == Environment.read().ISSUER_LOGOS

    logo.write_bytes(b"GIF89a")
    with pytest.raises(EnvironmentInvalidError, match=r"ISSUER_LOGOS: .*neither SVG nor PNG"):
        Environment.read()
    monkeypatch.delenv("ISSUER_LOGOS")
    with pytest.raises(EnvironmentInvalidError, match=r"ISSUER_LOGO: .*neither SVG nor PNG"):
        Environment.read()

    monkeypatch.setenv("ISSUER_LOGO", str(tmp_path / "gone.svg"))
    with pytest.raises(EnvironmentInvalidError, match="ISSUER_LOGO: "):
        Environment.read()
