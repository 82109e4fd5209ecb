"""What several processes need at once is fetched once; the rest is in test_prometheus.py."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from embedded.debian_programs import Package, find_programs

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


def test_those_who_need_a_program_at_once_fetch_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, tools = tmp_path / "calls", tmp_path / "tools"
    _command(tmp_path, "apt-get", APT_GET.format(calls=calls))
    _command(tmp_path, "dpkg", DPKG)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda _: find_programs(Package("Lathe", "lathe", ("lathe",)), tools), "1234")
        )

    assert {programs.folder for programs in found} == {tools / "lathe"}
    assert list(tools.iterdir()) == [tools / "lathe"]
    assert len(calls.read_text("utf-8").splitlines()) == 1


def _command(folder: Path, name: str, script: str) -> None:
    file = folder / "bin" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(script, "utf-8")
    file.chmod(0o755)
