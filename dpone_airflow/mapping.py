"""Turns a plan's receipt into one mapping item per partition, and checks that an item belongs to a map index. Pure.

Item N is partition N of the plan (0 is the partition of NULL keys), and Airflow gives it map index N: what a pod stages
is known from its index alone. Contract: AIR-32, AIR-33.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dpone_airflow.outcome import StepContract
from dpone_core.contracts.receipt_verification import ReceiptExpectation, ReceiptProblem, examine
from dpone_core.contracts.step_receipt import RECEIPT_INVALID, StepReceipt
from dpone_core.errors import ErrorCode
from dpone_core.model.vocabulary import StepKind

PARTITIONS_TASK_ID: Final = "partitions"
MAPPING_ITEM_FOREIGN: Final = ErrorCode("DPONE_AIRFLOW_MAPPING_ITEM_FOREIGN")
MAPPING_TOO_LONG: Final = ErrorCode("DPONE_AIRFLOW_MAPPING_TOO_LONG")

_SCHEMA: Final = "dpone.airflow-mapping-item.v1"
_MODE: Final = "native_transfer"


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """A plan to be mapped: its fingerprint and its number of partitions, from an accepted receipt."""

    transfer_plan: str
    partitions: int

    def items(self) -> list[dict[str, object]]:
        """One item per partition, in the order of their indexes."""
        return [self.item(index) for index in range(self.partitions)]

    def item(self, index: int) -> dict[str, object]:
        """The document of DPONE_AIRFLOW_MAPPING_ITEM."""
        return {
            "schema": _SCHEMA,
            "mode": _MODE,
            "mapping_plan_fingerprint": self.transfer_plan,
            "item_index": index,
        }


def fan_out_of(receipt: StepReceipt | None) -> FanOut | None:
    """What a plan's own, succeeded receipt says; None for every other receipt."""
    if receipt is None or receipt.kind is not StepKind.TRANSFER_PLAN:
        return None
    if receipt.exit_code != 0 or receipt.transfer_plan is None or receipt.partitions is None:
        return None
    return FanOut(transfer_plan=receipt.transfer_plan, partitions=receipt.partitions)


def plan_to_map(plan_receipt: object, expectation: ReceiptExpectation, limit: int) -> FanOut | ReceiptProblem:
    """The fan-out of the plan's own receipt (untrusted), or the problem that forbids to map it.

    `limit` is the number of tasks Airflow maps at most (core.max_map_length).
    """
    examined = examine(plan_receipt, expectation)
    if examined.problems:
        return examined.problems[0]
    planned = fan_out_of(examined.receipt)
    if planned is None:
        return ReceiptProblem(code=RECEIPT_INVALID, message="the receipt is not that of a plan")
    if planned.partitions > limit:
        message = f"the plan has {planned.partitions} partitions, core.max_map_length is {limit}"
        return ReceiptProblem(code=MAPPING_TOO_LONG, message=message)
    return planned


def expectation_of(
    step: StepContract, item: object, *, dag_id: str, dag_run_id: str, map_index: int
) -> ReceiptExpectation | None:
    """What the receipt of a mapped task must contain, the plan of its item included; None for another task's item."""
    plan = plan_of_item(item, map_index)
    if plan is None:
        return None
    return step.expectation(dag_id=dag_id, dag_run_id=dag_run_id, map_index=map_index, transfer_plan=plan)


def plan_of_item(item: object, map_index: int) -> str | None:
    """The fingerprint of the plan whose partition `map_index` this item describes; None for any other item."""
    plan = item.get("mapping_plan_fingerprint") if isinstance(item, Mapping) else None
    if not isinstance(plan, str) or map_index < 0:
        return None
    return plan if item == FanOut(transfer_plan=plan, partitions=map_index + 1).item(map_index) else None
