"""The settings of a database: how soon the loss of its host is noticed."""

from config.settings.base import database


def test_the_loss_of_the_databases_host_is_noticed_within_a_minute() -> None:
    options = database("postgresql://app:secret@db.example.com/ledger")["OPTIONS"]

    assert options == {
        "connect_timeout": "10",
        "keepalives_idle": "20",
        "keepalives_interval": "10",
        "keepalives_count": "3",
        "tcp_user_timeout": "50000",
        "application_name": "gpu-ledger",
    }
    probes = int(options["keepalives_interval"]) * int(options["keepalives_count"])
    assert int(options["keepalives_idle"]) + probes <= 60


def test_a_url_may_have_other_limits() -> None:
    url = "postgresql://app:secret@db.example.com/ledger?connect_timeout=3&sslmode=require"

    options = database(url)["OPTIONS"]

    assert (options["connect_timeout"], options["sslmode"]) == ("3", "require")
