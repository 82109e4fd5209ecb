"""The embedded Prometheus: on PATH or fetched, started, fed with texts, killed, supervised."""

import os
import shutil
import signal
from pathlib import Path

import pytest
import requests

from embedded.ports import free_port
from embedded.programs import EmbeddedServerError, wait_until
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import (
    PROGRAM,
    TOOL,
    find_prometheus,
    find_prometheus_3,
    find_victoria_metrics,
)
from embedded.supervisor import Supervisor

SMALL = """# TYPE demo gauge
demo{job="x"} 1 1790812800
demo{job="x"} 2 1790812860
# EOF
"""


@pytest.fixture
def server(state: Path, programs: Path) -> EmbeddedPrometheus:
    """Give a server that is not started yet."""
    return EmbeddedPrometheus(state / "prometheus", programs=programs)


def ask(server: EmbeddedPrometheus, query: str, at: float) -> list[dict[str, object]]:
    answer = requests.get(
        f"{server.url()}/api/v1/query", params={"query": query, "time": str(at)}, timeout=10
    ).json()
    assert answer["status"] == "success"
    result: list[dict[str, object]] = answer["data"]["result"]
    return result


def fake_tool(folder: Path, name: str, script: str) -> None:
    """Put a program of our own on a PATH."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def test_programs_on_path_are_taken(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (PROGRAM, TOOL):
        fake_tool(state / "bin", name, "exit 0")
    monkeypatch.setenv("PATH", str(state / "bin"))

    assert find_prometheus(state / "tools").folder == state / "bin"


def test_half_of_the_programs_on_path_are_none(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_tool(state / "bin", PROGRAM, "exit 0")
    monkeypatch.setenv("PATH", str(state / "bin"))

    found = find_prometheus(state / "tools", is_fetched=False)

    assert (found.folder, found.reason) == (None, "Prometheus is not on PATH.")


def test_a_failed_download_is_reported_in_one_line(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_tool(state / "bin", "apt-get", "echo 'W: first' >&2; echo 'E: No network' >&2; exit 100")
    fake_tool(state / "bin", "dpkg", "exit 0")
    monkeypatch.setenv("PATH", f"{state / 'bin'}")

    found = find_prometheus(state / "tools")

    assert found.folder is None
    assert found.reason == "Prometheus is not here: E: No network."
    assert list((state / "tools").iterdir()) == []


def test_without_apt_the_reason_is_reported(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (state / "bin").mkdir()
    monkeypatch.setenv("PATH", str(state / "bin"))

    found = find_prometheus(state / "tools")

    assert found.folder is None
    assert "without apt-get it cannot be fetched" in found.reason
    assert "\n" not in found.reason


def test_a_package_without_the_programs_is_refused(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_tool(state / "bin", "apt-get", "/usr/bin/touch prometheus_1_amd64.deb")
    fake_tool(state / "bin", "dpkg", "exit 0")
    monkeypatch.setenv("PATH", str(state / "bin"))

    found = find_prometheus(state / "tools")

    assert found.reason == "Prometheus is not here: the package holds no program for this machine."


def test_fetched_programs_are_kept(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool(state / "bin", "apt-get", "/usr/bin/touch prometheus_1_amd64.deb")
    unpack = "/bin/mkdir -p root/usr/bin; for n in prometheus promtool; do"
    unpack += " echo x > root/usr/bin/$n; /bin/chmod 755 root/usr/bin/$n; done"
    fake_tool(state / "bin", "dpkg", unpack)
    monkeypatch.setenv("PATH", str(state / "bin"))

    first = find_prometheus(state / "tools")
    shutil.rmtree(state / "bin")
    second = find_prometheus(state / "tools", is_fetched=False)

    assert first.folder == second.folder == state / "tools" / PROGRAM
    assert sorted(path.name for path in (state / "tools").iterdir()) == [PROGRAM]


def test_another_program_is_fetched_beside_it(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_tool(state / "bin", "apt-get", '/usr/bin/touch "$2"_1_amd64.deb')
    unpack = "/bin/mkdir -p root/usr/bin; echo x > root/usr/bin/victoria-metrics;"
    fake_tool(state / "bin", "dpkg", f"{unpack} /bin/chmod 755 root/usr/bin/victoria-metrics")
    monkeypatch.setenv("PATH", str(state / "bin"))

    found = find_victoria_metrics(state / "tools")
    missing = find_prometheus(state / "tools")

    assert found.folder == state / "tools" / "victoria-metrics"
    assert (
        missing.reason == "Prometheus is not here: the package holds no program for this machine."
    )


LATER = """echo "$@" >> "{calls}"
case "$*" in
  indextargets*) echo "Debian http://mirror.test/debian/" ;;
  *update*) /bin/cat apt/sources.list >> "{calls}" ;;
  *) name=${{*#*download }}; /usr/bin/touch "${{name%% *}}_3_amd64.deb" ;;
esac"""
UNPACK_NAMED = """name=$(/usr/bin/basename "$2" _3_amd64.deb)
/bin/mkdir -p root/usr/bin; echo x > root/usr/bin/$name; /bin/chmod 755 root/usr/bin/$name"""


def test_a_later_version_is_fetched_from_another_suite_of_the_same_mirror(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = state / "calls"
    for name in (PROGRAM, TOOL):
        fake_tool(state / "bin", name, "exit 0")
    fake_tool(state / "bin", "apt-get", LATER.format(calls=calls))
    fake_tool(state / "bin", "dpkg", UNPACK_NAMED)
    monkeypatch.setenv("PATH", str(state / "bin"))

    found = find_prometheus_3(state / "tools")

    assert found.folder == state / "tools" / "prometheus-3"
    assert sorted(path.name for path in found.folder.iterdir()) == [PROGRAM, TOOL]
    lines = calls.read_text("utf-8").splitlines()
    assert lines[2] == "deb http://mirror.test/debian/ forky main"
    assert [line.partition("download ")[2].split()[0] for line in lines[3:]] == [PROGRAM, TOOL]
    assert "Dir::Etc::sourceparts=/dev/null" in lines[3]


def test_a_later_version_is_left_out_without_a_mirror(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_tool(state / "bin", "apt-get", "exit 0")
    monkeypatch.setenv("PATH", str(state / "bin"))

    found = find_prometheus_3(state / "tools")

    assert found.reason == "Prometheus 3 is not here: apt-get knows no mirror of Debian."


def test_it_answers_on_a_port_of_its_own(server: EmbeddedPrometheus) -> None:
    server.start()

    flags = requests.get(f"{server.url()}/api/v1/status/flags", timeout=5).json()["data"]
    assert flags["storage.tsdb.path"] == str(server.data)
    assert flags["storage.tsdb.retention.time"] == "400d"
    assert flags["web.listen-address"] == f"127.0.0.1:{server.port}"
    server.stop()
    assert not server.is_ready()


def test_two_run_side_by_side(
    server: EmbeddedPrometheus, second_state: Path, programs: Path
) -> None:
    other = EmbeddedPrometheus(second_state / "prometheus", programs=programs)
    server.start()
    other.start()

    assert server.port != other.port
    other.port, server.port = server.port, other.port
    assert not server.is_ready()
    assert not other.is_ready()
    other.port, server.port = server.port, other.port
    server.stop()
    other.stop()


def test_it_runs_as_the_caller_and_as_nobody_for_root(server: EmbeddedPrometheus) -> None:
    server.start()
    assert server.process is not None

    owner = Path(f"/proc/{server.process.pid}").stat().st_uid

    assert owner == (server.account.uid or os.geteuid()) != 0
    server.stop()


def test_a_text_becomes_samples(server: EmbeddedPrometheus, state: Path) -> None:
    text = state / "history.txt"
    text.write_text(SMALL, encoding="utf-8")

    server.import_openmetrics(text, name="small")

    server.start()
    (series,) = ask(server, 'demo{job="x"}[1h]', 1790812900)
    assert series["values"] == [[1790812800, "1"], [1790812860, "2"]]
    server.stop()


def test_a_text_is_imported_once(server: EmbeddedPrometheus, state: Path) -> None:
    text = state / "history.txt"
    text.write_text(SMALL, encoding="utf-8")
    server.import_openmetrics(text, name="small")
    blocks = sorted(path.name for path in server.data.iterdir())

    server.import_openmetrics(text, name="small")

    assert server.has_imported("small")
    assert not server.has_imported("other")
    assert sorted(path.name for path in server.data.iterdir()) == blocks


def test_a_broken_text_is_refused_and_leaves_nothing(
    server: EmbeddedPrometheus, state: Path
) -> None:
    text = state / "history.txt"
    text.write_text("demo{ 1\n", encoding="utf-8")

    with pytest.raises(EmbeddedServerError, match="promtool refused"):
        server.import_openmetrics(text, name="broken")

    assert not server.has_imported("broken")
    assert not server.data.exists()


def test_an_import_that_was_cut_is_done_again(server: EmbeddedPrometheus, state: Path) -> None:
    text = state / "history.txt"
    text.write_text(SMALL, encoding="utf-8")
    left_over = server.folder / "import-small.partial"
    (left_over / "01HALFMADE").mkdir(parents=True)

    server.import_openmetrics(text, name="small")

    assert not left_over.exists()
    assert len([path for path in server.data.iterdir() if path.name.startswith("01")]) == 1


def test_it_survives_being_killed(server: EmbeddedPrometheus, state: Path) -> None:
    text = state / "history.txt"
    text.write_text(SMALL, encoding="utf-8")
    server.import_openmetrics(text, name="small")
    server.start()
    assert server.process is not None

    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.start()

    assert len(ask(server, "demo[1h]", 1790812900)) == 1
    server.stop()


def test_one_that_was_left_behind_is_ended_first(
    server: EmbeddedPrometheus, programs: Path
) -> None:
    server.start()
    stale = server.process
    assert stale is not None

    twin = EmbeddedPrometheus(server.folder, programs=programs)
    twin.start()

    assert stale.wait(5) is not None
    assert twin.is_ready()
    twin.stop()


def test_a_supervisor_keeps_it_alive(state: Path, programs: Path) -> None:
    with Supervisor(state) as supervisor:
        server = EmbeddedPrometheus(
            state / "prometheus", programs=programs, port=free_port(), mark=state
        )
        supervisor.start(server)
        first = supervisor.pids()["prometheus"]

        os.kill(first, signal.SIGKILL)

        assert wait_until(
            lambda: supervisor.pids().get("prometheus", first) != first and server.is_ready(),
            timeout_seconds=30,
        )


def test_a_configuration_it_cannot_read_is_reported(state: Path, programs: Path) -> None:
    server = EmbeddedPrometheus(
        state / "prometheus", programs=programs, scrape_configs=[{"no_such_key": 1}]
    )

    with pytest.raises(EmbeddedServerError, match="no_such_key"):
        server.start()
