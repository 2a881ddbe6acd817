"""The Python API: `from dpone.api import run, plan, check`; for ranges in processes of their own the other three."""

from dpone_core.api import TransferOptions, check, load_partition, plan, plan_transfer, run

__all__ = ["TransferOptions", "check", "load_partition", "plan", "plan_transfer", "run"]
