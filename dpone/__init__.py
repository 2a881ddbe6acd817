"""Declarative data loading that cannot lie. `run`, `plan` and `check` are what the CLI of the same names does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpone_core.version import __version__

if TYPE_CHECKING:
    from dpone_core.api import check, plan, run

__all__ = ["__version__", "check", "plan", "run"]


def __getattr__(name: str) -> Any:
    if name in ("run", "plan", "check"):
        from dpone_core import api

        return getattr(api, name)
    raise AttributeError(f"module 'dpone' has no attribute '{name}'")
