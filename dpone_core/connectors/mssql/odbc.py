"""Imports pyodbc, or raises DriverMissingError with the way to install unixODBC. Every module of this connector imports
pyodbc from here."""

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
