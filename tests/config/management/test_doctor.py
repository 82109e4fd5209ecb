"""`manage.py doctor`: what it prints, in both forms, and how it ends."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from config.monitoring.health import known_migrations
from tests.support.builders import make_cluster

pytestmark = pytest.mark.django_db
WIDTH = 80


def run(*arguments: str, code: int = 0) -> str:
    """Return what is printed; a code of 1 is an exit."""
    out = StringIO()
    if code:
        with pytest.raises(SystemExit) as ended:
            call_command("doctor", *arguments, stdout=out)
        assert ended.value.code == code
    else:
        call_command("doctor", *arguments, stdout=out)
    return out.getvalue()


def test_the_table_fits_a_terminal_and_a_remedy_is_below_its_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))

    lines = run("--only", "broker", "--only", "migrations", code=1).splitlines()

    assert max(map(len, lines)) <= WIDTH
    assert [" ".join(line.split()) for line in lines if line.strip()] == [
        "Database",
        f"ok migrations All {len(known_migrations())} migrations are applied.",
        "Background work",
        "problem broker Valkey does not answer (OperationalError): no worker",
        "is woken.",
        "Remedy: Start it, and check REDIS_URL, and",
        "REDIS_SENTINELS where they are set.",
        "docs/how-to/install.md",
        "1 ok, 0 warning, 1 problem",
    ]


def test_json_has_every_finding_with_its_remedy() -> None:
    document = json.loads(run("--json", "--only", "verification"))

    assert document == {
        "counts": {"ok": 0, "warning": 1, "problem": 0},
        "results": [
            {
                "check": "verification",
                "state": "warning",
                "found": "The database was never verified.",
                "remedy": "Run `manage.py verify`, or let beat start it.",
                "page": "docs/how-to/verify.md",
                "subject": "",
                "section": "Database",
            }
        ],
    }


def test_a_cluster_and_a_check_of_it_can_be_named() -> None:
    make_cluster("hopper", kubernetes_url="")
    make_cluster("ampere", kubernetes_url="")

    of_cluster = json.loads(run("--json", "--only", "hopper"))["results"]
    of_both = json.loads(run("--json", "--only", "watch"))["results"]
    of_one = json.loads(run("--json", "--only", "watch:ampere"))["results"]

    assert [one["check"] for one in of_cluster] == [
        "prometheus",
        "kubernetes",
        "watch",
        "webhook",
    ]
    assert {one["section"] for one in of_cluster} == {"Cluster hopper"}
    assert [one["subject"] for one in of_both] == ["ampere", "hopper"]
    assert [one["subject"] for one in of_one] == ["ampere"]


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(CommandError, match="No check or cluster is named nothing"):
        run("--only", "nothing")


def test_files_and_time_zones_are_looked_at() -> None:
    storage, zones = json.loads(run("--json", "--only", "storage", "--only", "time-zones"))[
        "results"
    ]

    assert (storage["state"], zones["state"]) == ("ok", "ok")
