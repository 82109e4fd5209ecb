"""A real Prometheus that holds a text of samples."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedded.programs import end_stale
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import find_prometheus

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def holding(openmetrics: str, *, samples_max: int | None = None) -> Iterator[str]:
    """Run a Prometheus that holds samples and yield its URL.

    Args:
        openmetrics: The samples.
        samples_max: More than this many are refused in one query; None for its default.
    """
    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail(programs.reason)
        pytest.skip(programs.reason)
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    server = EmbeddedPrometheus(
        folder / "prometheus", programs=programs.folder, samples_max=samples_max
    )
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
