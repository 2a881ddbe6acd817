"""pyodbc, or the way to install what it stands on: every module of this connector takes it from here."""

from __future__ import annotations

from .driver import unixodbc_missing_error

try:
    import pyodbc
except ImportError as error:  # the module is there and libodbc is not
    if "libodbc" not in str(error):
        raise
    raise unixodbc_missing_error() from error

pyodbc.pooling = False

__all__ = ("pyodbc",)
