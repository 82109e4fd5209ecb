"""Programs are unpacked from Debian's packages once, also when several processes need them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from embedded.debian_programs import Package, find_programs

PACKAGE = Package("Lathe", "lathe", ("lathe",))
APT_GET = """#!/bin/sh
echo "$@" >> {calls}
sleep 0.2
touch lathe_1_all.deb
"""
DPKG = """#!/bin/sh
mkdir -p root/usr/bin
printf '#!/bin/sh\\n' > root/usr/bin/lathe
chmod 755 root/usr/bin/lathe
"""
APT_GET_AWAY = """#!/bin/sh
echo "E: Temporary failure resolving" >&2
exit 100
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put programs that stand for Debian's own on PATH; return the file of apt-get's calls."""
    called = tmp_path / "calls"
    _command(tmp_path, "apt-get", APT_GET.format(calls=called))
    _command(tmp_path, "dpkg", DPKG)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return called


def test_those_who_need_a_program_at_once_fetch_it_once(tmp_path: Path, calls: Path) -> None:
    tools = tmp_path / "tools"

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: find_programs(PACKAGE, tools), range(4)))

    assert {programs.folder for programs in found} == {tools / "lathe"}
    assert (tools / "lathe" / "lathe").exists()
    assert len(calls.read_text("utf-8").splitlines()) == 1


def test_what_was_fetched_is_not_fetched_again(tmp_path: Path, calls: Path) -> None:
    find_programs(PACKAGE, tmp_path / "tools")
    calls.unlink()

    assert find_programs(PACKAGE, tmp_path / "tools").folder == tmp_path / "tools" / "lathe"
    assert not calls.exists()


@pytest.mark.usefixtures("calls")
def test_a_fetch_that_fails_says_why_and_can_be_repeated(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    _command(tmp_path, "apt-get", APT_GET_AWAY)

    refused = find_programs(PACKAGE, tools)

    assert refused.folder is None
    assert refused.reason == "Lathe is not here: E: Temporary failure resolving."
    _command(tmp_path, "apt-get", APT_GET.format(calls=tmp_path / "calls"))
    assert find_programs(PACKAGE, tools).folder == tools / "lathe"


@pytest.mark.usefixtures("calls")
def test_nothing_is_fetched_for_one_who_only_looks(tmp_path: Path) -> None:
    looked = find_programs(PACKAGE, tmp_path / "tools", is_fetched=False)

    assert (looked.folder, looked.reason) == (None, "Lathe is not on PATH.")
    assert not (tmp_path / "tools").exists()


def _command(folder: Path, name: str, script: str) -> None:
    file = folder / "bin" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(script, "utf-8")
    file.chmod(0o755)
