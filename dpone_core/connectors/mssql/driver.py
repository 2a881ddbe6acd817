"""Finds Microsoft's ODBC driver: in the `mssql-python-odbc` wheel, or where the operator says."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dpone_core.errors import ETLConfigurationError

OVERRIDE: Final = "DPONE_MSSQL_DRIVER"
OS_RELEASE: Final = Path("/etc/os-release")
_FAMILIES: Final = (
    ("debian_ubuntu", frozenset({"debian", "ubuntu"})),
    ("rhel", frozenset({"rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn"})),
    ("suse", frozenset({"suse", "sles", "opensuse", "opensuse-leap"})),
    ("alpine", frozenset({"alpine"})),
)
_INSTALL: Final = {
    "debian_ubuntu": "apt-get install unixodbc",
    "rhel": "dnf install unixODBC",
    "suse": "zypper install unixODBC",
    "alpine": "apk add unixodbc",
}
_MACHINES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}


class DriverMissingError(ETLConfigurationError):
    """A system library that the Python packages need is missing; nothing has been read."""

    code = "DPONE_EXTRA_MISSING"


def family_of(os_release: str) -> str:
    """The wheel's folder for the distribution that /etc/os-release describes; Debian's folder for an unknown one."""
    lines = (line.partition("=") for line in os_release.splitlines())
    said = {name: value.strip('"') for name, _, value in lines}
    names = {said.get("ID", "").lower(), *said.get("ID_LIKE", "").lower().split()}
    return next((folder for folder, known in _FAMILIES if known & names), "debian_ubuntu")


def driver_path(environment: Mapping[str, str] = os.environ) -> str:
    """The driver's library; DriverMissingError when there is none."""
    named = environment.get(OVERRIDE, "").strip()
    if named:
        if not Path(named).is_file():
            raise DriverMissingError(f"{OVERRIDE} names no file", fix="give the path of libmsodbcsql*.so*")
        return named
    found = _find_bundled()
    if found is None:
        raise DriverMissingError(
            "the ODBC driver of SQL Server is not installed",
            fix=f"install it from a checkout or wheel: pip install '.[mssql]', or set {OVERRIDE}",
        )
    return str(found)


def unixodbc_missing_error() -> DriverMissingError:
    install = _INSTALL[family_of(_os_release())]
    return DriverMissingError("the system library unixODBC is not installed", fix=f"install it: {install}")


def _find_bundled() -> Path | None:
    spec = importlib.util.find_spec("mssql_python_odbc")
    if spec is None or not spec.submodule_search_locations:
        return None
    machine = _MACHINES.get(platform.machine().lower(), platform.machine().lower())
    folder = Path(next(iter(spec.submodule_search_locations))) / "libs" / "linux" / family_of(_os_release())
    libraries = sorted((folder / machine / "lib").glob("libmsodbcsql*.so*"))
    return libraries[-1] if libraries else None


def _os_release() -> str:
    try:
        return OS_RELEASE.read_text(encoding="utf-8")
    except OSError:
        return ""
