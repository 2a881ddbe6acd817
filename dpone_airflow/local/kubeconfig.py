"""The kubeconfig that points a Kubernetes client at the runner."""

from __future__ import annotations

import json
import os
from pathlib import Path

LOOPBACK = "127.0.0.1"

_NAME = "dpone-local"


def write_kubeconfig(path: Path, *, port: int, token: str) -> None:
    """Writes the file readable by its owner only, replacing an older one atomically. JSON is valid YAML."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
        "clusters": [{"name": _NAME, "cluster": {"server": f"http://{LOOPBACK}:{port}"}}],
        "users": [{"name": _NAME, "user": {"token": token}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
    partial.replace(path)
