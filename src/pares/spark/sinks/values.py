"""Values of Spark's nested types, as databases take them.

Arrow gives a map as a list of pairs, which is a list as any other, so a value alone does not say what it is: the column's type
does.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def is_json(kind: pa.DataType) -> bool:
    """Whether a column of this type holds maps, structures, or lists of them."""
    import pyarrow as pa

    while pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    return pa.types.is_map(kind) or pa.types.is_struct(kind)


def values(column: pa.Array) -> list[Any]:
    """As `to_pylist`, with a `dict` for each map."""
    found: list[Any] = column.to_pylist()
    return [_with_dicts(value, column.type) for value in found] if is_json(column.type) else found


def _with_dicts(value: Any, kind: pa.DataType) -> Any:
    import pyarrow as pa

    if value is None or not is_json(kind):
        return value
    if pa.types.is_map(kind):
        return {key if isinstance(key, str) else _text(key): _with_dicts(one, kind.item_type) for key, one in value}
    if pa.types.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    return [_with_dicts(one, kind.value_type) for one in value]


def as_json(value: Any) -> str:
    """Times in UTC (ISO 8601), bytes as hexadecimal digits, all else that JSON does not have as `str` has it."""
    return json.dumps(value, default=_text)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat(sep=" ")
    return value.hex() if isinstance(value, bytes) else str(value)
