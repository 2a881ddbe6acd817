"""unixODBC is a system library that no wheel brings: without it every cell of SQL Server is UNVERIFIED, one by one."""

from __future__ import annotations

import importlib

import pytest

from dpone_core.connectors.mssql.driver import DriverMissingError


def require_unixodbc() -> None:
    """Skips with the line that installs it."""
    try:
        importlib.import_module("dpone_core.connectors.mssql.odbc")
    except DriverMissingError as missing:
        pytest.skip(f"UNVERIFIED: {missing.message}; {missing.fix}")
