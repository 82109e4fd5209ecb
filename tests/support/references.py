"""References to secrets of clusters that tests write into temporary folders."""

from pathlib import Path

from django.conf import settings


def reference_to(path: Path | str, *, kind: str = "kubeconfig") -> str:
    """Return the reference under which a cluster names a file of a test."""
    directory, file = Path(settings.CLUSTER_SECRETS_DIR).resolve(), Path(path).resolve()
    if not file.is_relative_to(directory):  # A real cluster's kubeconfig is where its owner has it.
        settings.CLUSTER_SECRETS_DIR = directory = file.parent
    return f"{kind}:{file.relative_to(directory)}"
