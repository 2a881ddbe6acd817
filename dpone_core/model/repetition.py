"""What a repeat does to a target that already holds the load, from three facts a receipt states.

`retry_may_repeat_target_mutation` says that a repeat may publish once more. Whether that adds the same rows, replaces
them, or finds nothing to publish follows from the source state and the strategy. Contract: FAIL-32.
"""

from __future__ import annotations

from enum import StrEnum

from dpone_core.model.vocabulary import RetryClassification, SourceState, StrategyMode, TargetState


class Repetition(StrEnum):
    """What a repeat of a committed load does to its target.

    NOTHING: the source state has advanced, so the rows of this load are not read as new ones again. REPLACES: the same
    rows or partitions are written in place of themselves. MERGES: the same rows update themselves by their key.
    ADDS: the rows may be written a second time.
    """

    NOTHING = "nothing"
    REPLACES = "replaces"
    MERGES = "merges"
    ADDS = "adds"


def repetition_of(retry: object, target_state: object, source_state: object, strategy: object) -> Repetition | None:
    """The repetition for facts given as enum members or as their text; what is not known counts as ADDS.

    None where the classification says all: it is another one than `retry_may_repeat_target_mutation`.
    """
    if retry != RetryClassification.RETRY_MAY_REPEAT_TARGET_MUTATION:
        return None
    if target_state != TargetState.MUTATION_RETURNED_SUCCESS:
        return Repetition.ADDS
    if source_state == SourceState.ADVANCED:
        return Repetition.NOTHING
    if strategy in (StrategyMode.FULL_REFRESH, StrategyMode.PARTITION_REPLACE):
        return Repetition.REPLACES
    return Repetition.MERGES if strategy == StrategyMode.INCREMENTAL_MERGE else Repetition.ADDS
