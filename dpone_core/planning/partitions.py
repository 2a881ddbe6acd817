"""Splits the span between a key's least and greatest value into half-open ranges. Pure arithmetic, no source.

The first range begins at the least value, the last one ends with the greatest one included, and the partition of NULL
keys always stands first: every value in the span, and every NULL, lies in exactly one partition, however skewed the
values are. Ranges are of equal width, not of equal rows. Text is ordered by code point, a UUID as its 128 bits; a
source that orders otherwise must compare so or refuse.
"""

from __future__ import annotations

from decimal import InvalidOperation

from dpone_core.model.load_config import LoadConfig, PartitionGranularity, TableName
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.partition import KeyBounds, KeyRange, TransferRoute
from dpone_core.model.table_schema import Column, ColumnKind
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.planning.key_scales import PartitionKeyError, Scale, scale_of, start_of


def route_of(plan: LoadPlan) -> TransferRoute:
    """Source, target and strategy of a plan; the target with its namespace, so that two spellings are one route."""
    target = plan.target
    named = TableName(schema=target.table.schema or target.default_schema or None, name=target.table.name)
    return TransferRoute(source_table=plan.source.dataset, target_table=str(named), strategy=target.strategy)


def whole_partitions(config: LoadConfig) -> PartitionGranularity | None:
    """What of the key a range must not divide: the target partitions that a publication replaces; None for others."""
    partition = config.sink.physical_design.partition_by
    if config.sink.strategy.mode is not StrategyMode.PARTITION_REPLACE or partition is None:
        return None
    return partition.granularity


def plan_ranges(
    key: Column, bounds: KeyBounds, partitions: int, whole: PartitionGranularity | None = None
) -> tuple[KeyRange, ...]:
    """The NULL partition, then at most `partitions` ranges; fewer where the span has fewer values.

    With `whole` no day, month, year or value of the key lies in two ranges: what replaces target partitions of that
    granularity replaces nothing that another range has loaded.

    Raises PartitionKeyError for a type that has no ranges and for bounds that are not values of the key.
    """
    scale = scale_of(key, bounds)
    start = None if whole is None else start_of(key, whole)
    null = KeyRange(partition_index=0, is_null_partition=True)
    if bounds.lower is None or bounds.upper is None:
        if bounds.lower is not None or bounds.upper is not None:
            raise _invalid(key)
        return (null,)
    try:
        lower, upper = scale.number(bounds.lower), scale.number(bounds.upper)
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise _invalid(key) from error
    if lower > upper:
        raise _invalid(key)
    edges = _edges(lower, upper, partitions)
    if start is not None:
        edges = sorted({start(edge) for edge in edges})
    starts = _starts(bounds.lower, bounds.upper, [scale.text(edge) for edge in edges], scale)
    return (null, *_ranges(starts, bounds.upper))


def covering(key: Column, given: KeyBounds, observed: KeyBounds) -> KeyBounds:
    """The given bounds with the observed number of rows; ids of their ranges stay the same while the source grows.

    Raises PartitionKeyError `partition_bounds_do_not_cover` when a key of the source lies outside: it would be lost.
    """
    if given.lower is None or given.upper is None:
        raise _invalid(key)
    if observed.lower is None or observed.upper is None:
        return KeyBounds(lower=given.lower, upper=given.upper, rows=observed.rows)
    scale = scale_of(key, KeyBounds(lower=min(given.lower, observed.lower), upper=given.upper, rows=0))
    if key.type.kind is ColumnKind.STRING:
        below, above = observed.lower < given.lower, observed.upper > given.upper
    else:
        try:
            below = scale.number(observed.lower) < scale.number(given.lower)
            above = not _reaches(scale, given.upper, observed.upper)
        except (ValueError, OverflowError, InvalidOperation) as error:
            raise _invalid(key) from error
    if below or above:
        raise PartitionKeyError(
            f"the source holds values of '{key.name}' outside the given bounds; their rows would not be loaded",
            code="partition_bounds_do_not_cover",
            fix="widen source.options.partitioning.bounds, or remove them",
        )
    return KeyBounds(lower=given.lower, upper=given.upper, rows=observed.rows)


def _reaches(scale: Scale, given: str, observed: str) -> bool:
    """Whether `given` is not below `observed`, whose number may have been rounded down."""
    there, here = scale.number(given), scale.number(observed)
    return here < there or (here == there and (given == observed or scale.text(here) == observed))


def _starts(lower: str, upper: str, edges: list[str], scale: Scale) -> list[str]:
    """Where each range begins; the text of an edge may have come closer to a bound than its number."""
    first, last = scale.number(lower), scale.number(upper)
    inner = {edge: scale.number(edge) for edge in edges}
    kept = sorted((edge for edge, number in inner.items() if first < number <= last), key=lambda edge: inner[edge])
    return [lower, *kept]


def _ranges(starts: list[str], upper: str) -> tuple[KeyRange, ...]:
    last = len(starts) - 1
    return tuple(
        KeyRange(
            partition_index=index + 1,
            lower=start,
            upper=upper if index == last else starts[index + 1],
            include_upper=index == last,
        )
        for index, start in enumerate(starts)
    )


def _edges(lower: int, upper: int, partitions: int) -> list[int]:
    """Inner edges at equal distances, all above `lower`."""
    if partitions < 1:
        raise ValueError("a plan has at least one range")
    span = upper - lower + 1
    return sorted({lower + span * index // partitions for index in range(1, partitions)} - {lower})


def _invalid(key: Column) -> PartitionKeyError:
    return PartitionKeyError(
        f"partitioning column '{key.name}' holds bounds that are no finite {key.type} values in order",
        code="partition_bounds_invalid",
        fix="choose another column, or filter such values in options.query",
    )
