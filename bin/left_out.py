"""Say in one line which optional programs are missing, and which tests that leaves out."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from embedded.prometheus_programs import (  # noqa: E402 - The path comes first.
    find_prometheus,
    find_prometheus_3,
    find_victoria_metrics,
)

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    """Print nothing when everything is here."""
    missing = []
    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        missing.append(f"a real Prometheus ({programs.reason})")
    programs = find_prometheus_3(ROOT / ".tools")
    if programs.folder is None:
        missing.append(f"a Prometheus 3 ({programs.reason})")
    programs = find_victoria_metrics(ROOT / ".tools")
    if programs.folder is None:
        missing.append(f"a real VictoriaMetrics ({programs.reason})")
    helm = subprocess.run(  # noqa: S603 - Our own program.
        [ROOT / "bin" / "prepare", "helm"], capture_output=True, text=True, check=False
    )
    if helm.returncode:
        missing.append(f"the Helm chart ({helm.stderr.strip().splitlines()[-1]})")
    if not any(shutil.which(name) for name in CHROMIUM):
        missing.append("the browser (install chromium)")
    if shutil.which("pdftoppm") is None:
        missing.append("looking at PDFs (install poppler-utils)")
    if missing:
        sys.stdout.write(f"Left out: tests with {'; '.join(missing)}\n")


if __name__ == "__main__":
    main()
