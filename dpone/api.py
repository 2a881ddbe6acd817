"""The Python API: `from dpone.api import run, plan, check`."""

from dpone_core.api import check, plan, run

__all__ = ["check", "plan", "run"]
