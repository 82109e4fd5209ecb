"""A real Prometheus that holds a text of samples."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedded.debian_programs import Programs
from embedded.programs import end_stale
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import find_prometheus, find_prometheus_3

ROOT = Path(__file__).resolve().parents[3]
HAS_PROMETHEUS_3 = find_prometheus_3(ROOT / ".tools", is_fetched=False).folder is not None
"""Only if `make test` could fetch it, which reports it otherwise."""
VERSIONS = [2, *([3] if HAS_PROMETHEUS_3 else [])]
"""A range holds the sample at its begin in Prometheus 2, and does not in 3."""


def folder_of(programs: Programs) -> Path:
    """Return the folder of programs; without them the test is left out, and fails in CI."""
    if programs.folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail(programs.reason)
        pytest.skip(programs.reason)
    return programs.folder


@contextmanager
def holding(openmetrics: str, *, samples_max: int | None = None, version: int = 2) -> Iterator[str]:
    """Run a Prometheus that holds samples and yield its URL.

    Args:
        openmetrics: The samples.
        samples_max: More than this many are refused in one query; None for its default.
        version: 3, or the one that this machine has.
    """
    find = find_prometheus_3 if version == 3 else find_prometheus
    programs = folder_of(find(ROOT / ".tools"))
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs, samples_max=samples_max)
    try:
        server.prepare()
        text = server.folder / "samples.txt"
        text.write_text(openmetrics)
        server.import_openmetrics(text, name="samples")
        server.start()
        yield server.url()
    finally:
        server.stop()
        end_stale(folder)
        shutil.rmtree(folder)
