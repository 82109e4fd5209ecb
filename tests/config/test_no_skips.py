"""CI=true and skipped tests do not go together."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

Ended = subprocess.CompletedProcess[str]
ROOT = Path(__file__).resolve().parent.parent.parent
SKIPPED = 'import pytest\ndef test_left_out():\n    pytest.importorskip("no_such_module")\n'
EXPECTED = (
    "import pytest\n@pytest.mark.xf" + "ail(strict=True)\ndef test_known():\n    raise ValueError\n"
)
WHOLE = 'import pytest\npytest.importorskip("no_such_module")\ndef test_x(): ...\n'


PLUGINS = ("-pno:django", "-pno:cacheprovider", "-pno:schemathesis", "-pno:hypothesispytest")


def run(folder: Path, *texts: str, flags: tuple[str, ...] = (), ci: str) -> Ended:
    shutil.copy(ROOT / "conftest.py", folder)
    for number, text in enumerate((*texts, "def test_fine(): ...\n"), start=1):
        (folder / f"test_{number}.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGINS, *flags],
        cwd=folder,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("flags", [(), ("-n", "1")])
def test_a_skipped_test_fails_the_session_of_ci(tmp_path: Path, flags: tuple[str, ...]) -> None:
    done = run(tmp_path, SKIPPED, WHOLE, flags=flags, ci="true")

    assert done.returncode == 1
    assert "skipped, which CI=true refuses" in done.stdout
    assert "test_1.py" in done.stdout
    assert "test_2.py" in done.stdout


def test_elsewhere_a_skipped_test_is_only_reported(tmp_path: Path) -> None:
    done = run(tmp_path, SKIPPED, ci="")

    assert done.returncode == 0
    assert "1 passed, 1 skipped" in done.stdout


def test_an_expected_failure_did_run(tmp_path: Path) -> None:
    assert run(tmp_path, EXPECTED, ci="true").returncode == 0
