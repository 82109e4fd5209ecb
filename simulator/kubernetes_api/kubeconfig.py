"""A kubeconfig for one server and one user."""

import base64
import json
from pathlib import Path


def write_kubeconfig(
    path: Path,
    *,
    url: str,
    authority_pem: str,
    token: str,
    name: str = "simulated",
) -> Path:
    """Write a kubeconfig that its owner alone may read, and return its path.

    It is written as JSON, which is YAML.

    Args:
        path: Where it goes.
        url: Of the server.
        authority_pem: The certificate that the server's is signed with.
        token: What the user proves itself with.
        name: Of its context.
    """
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": url,
                    "certificate-authority-data": base64.b64encode(authority_pem.encode()).decode(),
                },
            }
        ],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)
    return path
