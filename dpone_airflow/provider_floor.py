"""The oldest Airflow and provider versions that dpone is tested with; older ones are refused. Imports no vendor.

An older KubernetesPodOperator loses the receipt of a failed pod or hangs on it: a task would then say less than the
truth. Contract: POD-02.
"""

from __future__ import annotations

import inspect
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


_OVERRIDDEN: Final = {
    "execute": ("context",),
    "trigger_reentry": ("context", "event"),
    "extract_xcom": ("pod",),
    "cleanup": ("pod", "remote_pod", "xcom_result", "context"),
    "process_pod_deletion": ("pod", "reraise"),
    "on_kill": (),
    "build_pod_request_obj": ("context", "dry_run"),
    "render_template_fields": ("context", "jinja_env"),
    "_render": ("template", "context", "dag"),
    "_do_render_template_fields": ("parent", "template_fields", "context", "jinja_env", "seen_oids"),
}
"""What dpone's operators override or call of the stock operator: method -> parameters it is called with."""


def require_names(operator: type) -> None:
    """Raises ETLConfigurationError naming each method of the stock operator that is not there, or not as dpone needs
    it: an override that nobody calls any more would be a guard that is gone without a word.
    """
    unknown = [
        name for name, parameters in _OVERRIDDEN.items() if not _takes(getattr(operator, name, None), parameters)
    ]
    if unknown:
        raise ETLConfigurationError(
            f"the installed KubernetesPodOperator has no {'; '.join(map(_signature, unknown))}",
            code=PROVIDER_UNSUPPORTED,
            fix="install a version of apache-airflow-providers-cncf-kubernetes that this dpone was tested with",
        )


def _signature(name: str) -> str:
    return f"{name}({', '.join(_OVERRIDDEN[name])})"


def _takes(method: object, parameters: tuple[str, ...]) -> bool:
    return callable(method) and set(parameters) <= set(inspect.signature(method).parameters)


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """The release part: `10.25.0rc1` counts as 10.25.0."""
    return tuple(int(part) for part in re.findall(r"\d+", re.split(r"[a-z+-]", version, maxsplit=1)[0]))
