"""Rows of a query, as the columns of a table are that checks nothing itself.

A database refuses a value that its column can't hold; a file takes what it is given, and the table is broken for its readers.
So rows are brought to the table's columns before they are written: by name, and without a loss, or they are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pares.core.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa


def check_names(names: Iterable[str], columns: pa.Schema, where: object) -> None:
    """Raises `ConfigError` unless all names are columns, and all columns that need a value are among them."""
    given = list(names)
    strange = [name for name in given if name not in columns.names]
    if strange:
        raise ConfigError(
            f"{where} has no column {', '.join(strange)} (it has {', '.join(columns.names)}): name the query's columns as the "
            "table has them, or add the column to the table"
        )
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        raise ConfigError(f"the query has several columns {', '.join(twice)}: give each a name of its own")
    missing = [field.name for field in columns if not field.nullable and field.name not in given]
    if missing:
        raise ConfigError(f"the query has no column {', '.join(missing)}, which may not be null in {where}")


def fitted(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """The rows with these columns, in their order; a column that the rows don't have is null. Raises `ConfigError` for values
    that would be changed by it, or may not be null."""
    import pyarrow as pa

    found: list[pa.Array] = []
    for field in columns:
        if field.name not in rows.schema.names:
            found.append(pa.nulls(rows.num_rows, field.type))
            continue
        column = rows.column(field.name)
        if column.null_count and not field.nullable:
            raise ConfigError(f"{column.null_count} rows have no {field.name}, and the table's column may not be null")
        found.append(_cast(column, field))
    return pa.RecordBatch.from_arrays(found, schema=columns)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    import pyarrow as pa

    if column.type == field.type:
        return column
    if not _alike(column.type, field.type):
        raise ConfigError(
            f"column {field.name} is {column.type} in the query and {field.type} in the table: cast it in the query"
        )
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConfigError(
            f"column {field.name} is {column.type} in the query, and its values don't fit {field.type}: {error}"
        ) from error


def _alike(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type mean the same as values of the other. [a text that looks like a number would become one; a
    time without a zone would become one in UTC]"""
    import pyarrow as pa
    from pyarrow import types

    if given == wanted:
        return True
    if types.is_null(given):
        return True
    if types.is_timestamp(given) and types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None)
    if types.is_map(given) or types.is_map(wanted):
        both = isinstance(given, pa.MapType) and isinstance(wanted, pa.MapType)
        return both and _alike(given.key_type, wanted.key_type) and _alike(given.item_type, wanted.item_type)
    if _is_list(given) and _is_list(wanted):
        return _alike(given.value_type, wanted.value_type)
    if types.is_struct(given) and types.is_struct(wanted):
        pairs = zip(given, wanted, strict=False)
        return len(given) == len(wanted) and all(a.name == b.name and _alike(a.type, b.type) for a, b in pairs)
    kinds = (
        (types.is_integer, (types.is_integer, types.is_floating, types.is_decimal)),
        (types.is_floating, (types.is_floating,)),
        (types.is_decimal, (types.is_decimal,)),
        (_is_text, (_is_text,)),
        (_is_bytes, (_is_bytes,)),
    )
    return any(source(given) and any(target(wanted) for target in targets) for source, targets in kinds)


def _is_list(kind: pa.DataType) -> bool:
    from pyarrow import types

    return types.is_list(kind) or types.is_large_list(kind)


def _is_text(kind: pa.DataType) -> bool:
    from pyarrow import types

    return types.is_string(kind) or types.is_large_string(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    from pyarrow import types

    return types.is_binary(kind) or types.is_large_binary(kind)
