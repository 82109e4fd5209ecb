"""Where Prometheus' programs come from: PATH, or Debian's package unpacked without root.

No wheel carries them. Where neither way works, the caller is told why in one line.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "prometheus"
TOOL = "promtool"
DOWNLOAD_TIMEOUT_SECONDS = 180
UNPACK_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class PrometheusPrograms:
    """What was found.

    Attributes:
        folder: Holds `prometheus` and `promtool`; None when there are none.
        reason: Why there are none, in one line; "" when there are.
    """

    folder: Path | None
    reason: str = ""


def find_prometheus(tools: Path, *, is_fetched: bool = True) -> PrometheusPrograms:
    """Return Prometheus' programs from PATH, or those in `tools`, fetching them at first.

    Args:
        tools: A folder of the checkout for programs that are fetched, such as `.tools`.
        is_fetched: Whether to fetch them when they are nowhere.
    """
    kept = tools / PROGRAM
    on_path = shutil.which(PROGRAM)
    for folder in ([Path(on_path).parent] if on_path else []) + [kept]:
        if _is_complete(folder):
            return PrometheusPrograms(folder)
    if not is_fetched:
        return PrometheusPrograms(None, "Prometheus is not on PATH.")
    return _fetch(kept)


def _is_complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in (PROGRAM, TOOL))


def _fetch(kept: Path) -> PrometheusPrograms:
    """Unpack Debian's package beside its place and move it there whole."""
    partial = kept.with_name(f"{kept.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        programs = _unpack(partial)
        shutil.rmtree(kept, ignore_errors=True)
        programs.rename(kept)
    except subprocess.CalledProcessError as error:
        words = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        return _missing(words[-1] if words else "apt-get download failed")
    except (OSError, subprocess.TimeoutExpired) as error:
        return _missing(str(error))
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return PrometheusPrograms(kept)


def _unpack(partial: Path) -> Path:
    """Return the folder of the programs, unpacked: nothing is installed, so no root, no daemon."""
    _run("apt-get", "download", PROGRAM, cwd=partial, timeout_seconds=DOWNLOAD_TIMEOUT_SECONDS)
    packages = sorted(partial.glob(f"{PROGRAM}_*.deb"))
    if not packages:
        raise FileNotFoundError("apt-get download brought no package")
    package = str(packages[0])
    _run("dpkg", "-x", package, "root", cwd=partial, timeout_seconds=UNPACK_TIMEOUT_SECONDS)
    programs = partial / "root" / "usr" / "bin"
    if not _is_complete(programs):
        raise FileNotFoundError("the package holds no program for this machine")
    return programs


def _run(name: str, *arguments: str, cwd: Path, timeout_seconds: int) -> None:
    program = shutil.which(name)
    if program is None:
        raise FileNotFoundError(f"it is not on PATH, and without {name} it cannot be fetched")
    subprocess.run(  # noqa: S603 - Debian's own programs with fixed arguments.
        [program, *arguments], cwd=cwd, check=True, capture_output=True, timeout=timeout_seconds
    )


def _missing(reason: str) -> PrometheusPrograms:
    line = " ".join(reason.split())
    return PrometheusPrograms(None, f"Prometheus is not here: {line}.")
