"""The oldest Airflow and provider versions that dpone is tested with; older ones are refused. Imports no vendor.

An older KubernetesPodOperator loses the receipt of a failed pod or hangs on it: a task would then say less than the
truth. Contract: POD-02.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata
from typing import Final

from dpone_core.errors import ErrorCode, ETLConfigurationError

PROVIDER_UNSUPPORTED: Final = ErrorCode("DPONE_PROVIDER_UNSUPPORTED")
OLDEST: Final = {
    "apache-airflow": "2.11.0",
    "apache-airflow-providers-cncf-kubernetes": "10.25.0",
    "apache-airflow-providers-common-compat": "1.23.0",
}


@cache
def require_supported() -> None:
    """Raises ETLConfigurationError naming what is installed and what is needed."""
    found = {name: _installed(name) for name in OLDEST}
    lacking = [name for name, version in found.items() if _numbers(version or "0") < _numbers(OLDEST[name])]
    if lacking:
        raise ETLConfigurationError(
            "; ".join(f"{name} {found[name] or 'is not'} installed, dpone needs {OLDEST[name]}" for name in lacking),
            code=PROVIDER_UNSUPPORTED,
            fix="install " + " ".join(f"'{name}>={OLDEST[name]}'" for name in lacking) + " beside Airflow",
        )


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """The release part: `10.25.0rc1` counts as 10.25.0."""
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[a-z+-]", version, maxsplit=1)[0]))
