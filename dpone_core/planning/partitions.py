"""Splits the span between a key's least and greatest value into half-open ranges. Pure arithmetic; no source is read.

The first range begins at the least value and the last one includes the greatest; the partition of NULL keys comes
first. Every value in the span and every NULL lies in exactly one partition. Ranges have equal width, not an equal
number of rows. Text is ordered by code point and a UUID as a number of 128 bits; a source that orders them otherwise
must compare in this order or refuse.
"""

from __future__ import annotations

from decimal import InvalidOperation

from dpone_core.model.load_config import LoadConfig, PartitionGranularity, TableName
from dpone_core.model.load_plan import LoadPlan
from dpone_core.model.partition import KeyBounds, KeyRange, TransferRoute
from dpone_core.model.table_schema import Column, ColumnKind
from dpone_core.model.vocabulary import StrategyMode
from dpone_core.planning.key_scales import PartitionKeyError, Scale, partition_start, scale_of


def route_of(plan: LoadPlan) -> TransferRoute:
    """Source, target and strategy of a plan. The target always names its schema, so that two spellings give one
    route.
    """
    target = plan.target
    named = TableName(schema=target.table.schema or target.default_schema or None, name=target.table.name)
    return TransferRoute(source_table=plan.source.dataset, target_table=str(named), strategy=target.strategy)


def replaced_granularity(config: LoadConfig) -> PartitionGranularity | None:
    """Granularity of the target partitions that a publication replaces, which no range may divide; None for other
    strategies.
    """
    partition = config.sink.physical_design.partition_by
    if config.sink.strategy.mode is not StrategyMode.PARTITION_REPLACE or partition is None:
        return None
    return partition.granularity


def plan_ranges(
    key: Column, bounds: KeyBounds, partitions: int, granularity: PartitionGranularity | None = None
) -> tuple[KeyRange, ...]:
    """Returns the NULL partition, then at most `partitions` ranges; fewer where the span has fewer values.

    With `granularity` no day, month, year or value of the key lies in two ranges, so that replacing target partitions
    of that granularity removes no rows of another range. Raises PartitionKeyError for a type without ranges and for
    bounds that are not values of the key.
    """
    scale = scale_of(key, bounds)
    start = None if granularity is None else partition_start(key, granularity)
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


def apply_authored_bounds(key: Column, given: KeyBounds, observed: KeyBounds) -> KeyBounds:
    """Returns the authored bounds with the observed number of rows, so that range ids stay equal while the source
    grows.

    Raises PartitionKeyError, code partition_bounds_do_not_cover, when a key of the source lies outside: its row would
    be lost.
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
            f"the source holds values of '{key.name}' outside the authored bounds; their rows would not be loaded",
            code="partition_bounds_do_not_cover",
            fix="widen source.options.partitioning.bounds, or remove them",
        )
    return KeyBounds(lower=given.lower, upper=given.upper, rows=observed.rows)


def _reaches(scale: Scale, given: str, observed: str) -> bool:
    """Whether `given` is not below `observed`, whose number may have been rounded down."""
    there, here = scale.number(given), scale.number(observed)
    return here < there or (here == there and (given == observed or scale.text(here) == observed))


def _starts(lower: str, upper: str, edges: list[str], scale: Scale) -> list[str]:
    """Text at which each range begins. An edge whose text fell onto or below a bound is dropped."""
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
        f"bounds of partitioning column '{key.name}' must be finite {key.type} values, the lower bound first",
        code="partition_bounds_invalid",
        fix="choose another column, or filter such values in options.query",
    )
