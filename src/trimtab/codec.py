"""The one codec: records to JSON and back, for the store, for `--json` and for the native programs' messages.

It is strict: an unknown key, a missing one and a value of another type are errors that name the place. Numbers come
back exactly, infinite ones and NaN too; for `--json`, which others read, those are null. A record is a dataclass, or
a `msgspec.Struct` where its keys are not Python names; a numpy array is a list of its numbers.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec import inspect

T = TypeVar("T")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_KEY = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)


def builtins(value: Any) -> Any:
    """A value as dicts, lists, texts and numbers.

    Args:
        value: records and whatever they hold; the keys of a mapping become texts.
    """
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)


def encode(value: Any) -> str:
    """A value as compact JSON in one line."""
    return json.dumps(builtins(value), separators=(",", ":"))


def encode_strict(value: Any) -> str:
    """A value as compact JSON in one line that any reader takes: a number that is not finite is null there."""
    return json.dumps(_finite(builtins(value)), separators=(",", ":"), allow_nan=False)


def convert(raw: Any, kind: type[T]) -> T:
    """The value that `builtins` took apart.

    Args:
        raw: dicts, lists, texts and numbers.
        kind: its type, as annotated.

    Raises:
        ValueError: it is not one; the message names the place.
    """
    try:
        value = msgspec.convert(raw, kind, str_keys=True, dec_hook=_of_kind)
        unknown = _unknown(raw, builtins(value), "$")
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if unknown:
        raise ValueError(f"Object contains unknown field {unknown}")
    return value


def decode(text: str | bytes, kind: type[T]) -> T:
    """The value that `encode` wrote.

    Raises:
        ValueError: the text is not JSON, or not a value of that kind.
    """
    try:
        raw = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return convert(raw, kind)


def table(raw: Mapping[str, Any], kind: type[T]) -> T:
    """A table that a user wrote, as the `msgspec.Struct` that says which keys it has and what each may be.

    Args:
        raw: the table, as a parser of the file's format gives it.
        kind: a Struct that forbids unknown fields. What a `msgspec.Meta` describes goes into the message as what is
            allowed; else its bounds do.

    Raises:
        ValueError: something in it is wrong; one line with the name, the value and what is allowed.
    """
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_in_words(str(error), raw, kind)) from None
    except (RecursionError, UnicodeEncodeError):
        raise ValueError("it is nested too deeply, or has a key that is not Unicode") from None


def state_of(part: Any) -> Any:
    """The kind of the state of a controller, a guard or a judge: what its `start` is declared to return.

    One that stands around another says it by `state_type`.
    """
    return getattr(part, "state_type", None) or get_type_hints(type(part).start).get("return", Any)


def _plain(value: Any) -> Any:
    """Takes apart mappings that are no dicts, and numpy's arrays and numbers, which msgspec does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    if type(value).__module__ == "numpy":
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be stored")


def _finite(raw: Any) -> Any:
    """Plain values with None for numbers that JSON has no way to write."""
    if isinstance(raw, Mapping):
        return {key: _finite(value) for key, value in raw.items()}
    if isinstance(raw, list | tuple):
        return [_finite(value) for value in raw]
    return None if isinstance(raw, float) and not math.isfinite(raw) else raw


def _of_kind(kind: Any, raw: Any) -> Any:
    """The numpy array that was made a list."""
    if (get_origin(kind) or kind).__module__ == "numpy" and isinstance(raw, list):
        return sys.modules["numpy"].array(raw)
    raise TypeError(f"a {kind} cannot be read")


def _unknown(raw: Any, known: Any, place: str) -> str:
    """The first key that has become part of nothing: msgspec refuses those of a Struct, and drops a dataclass's."""
    if isinstance(raw, dict) and isinstance(known, dict):
        pairs = [(raw[key], known.get(key), f"{place}.{key}") for key in raw]
        if strange := next((str(key) for key in raw if str(key) not in known), None):
            return f"`{strange}` - at `{place}`"
    elif isinstance(raw, list | tuple) and isinstance(known, list | tuple):
        pairs = [(one, other, f"{place}[{i}]") for i, (one, other) in enumerate(zip(raw, known, strict=False))]
    else:
        return ""
    return next((found for one, other, at in pairs if (found := _unknown(one, other, at))), "")


def _in_words(error: str, raw: Any, kind: Any) -> str:
    """The fault that msgspec has found in a table, as its writer needs it."""
    said, _, path = error.rpartition(" - at `$") if " - at `$" in error else (error, "", "")
    place: list[Any] = [name or int(index) for name, index in _STEP.findall(path.removesuffix("`"))]
    try:
        value = reduce(getitem, place, raw)
        there, allowed = _declared(inspect.type_info(kind), place)
    except (LookupError, TypeError, AttributeError, StopIteration):  # a key of the file may look like a place
        return " ".join(error.split())
    if (key := _KEY.fullmatch(said)) is None and said.startswith("Object "):
        return " ".join(error.split())
    where, name, inside = _named([*place, key[2]] if key else place)
    if key is None:
        allowed = allowed or _bounds(there) or said
        return f"{where}{name} {f'has {value!r}, which' if inside else f'{value!r}'} is not {allowed}"
    if key[1] == "missing required":
        return f"{where}{name} is missing"
    known = [field.encode_name for field in there.fields]
    close = difflib.get_close_matches(key[2], known, 1)
    return f"{where}unknown key {name!r}" + (
        f"; did you mean {close[0]}?" if close else f": there are {', '.join(known)}"
    )


def _named(place: Sequence[Any]) -> tuple[str, str, bool]:
    """A place in a table: in which of several tables it is, its key, and whether it is one of that key's values."""
    where, name, inside = "", "", False
    for number, step in enumerate(place):
        if isinstance(step, str):
            name, inside = f"{name}.{step}" if name else step, False
        elif number + 1 < len(place):
            where, name = f"{where}{name} {step + 1}: ", ""
        else:
            inside = True
    return where, name, inside


def _declared(kind: Any, place: Sequence[Any]) -> tuple[Any, str]:
    """The type at a place, of a union its first, and what is said to be allowed there."""
    for step in (*place, None):
        said = ""
        while isinstance(kind, inspect.Metadata | inspect.UnionType):
            if isinstance(kind, inspect.Metadata):
                kind, said = kind.type, (kind.extra_json_schema or {}).get("description", said)
            else:
                kind = kind.types[0]
        if isinstance(step, str):
            kind = next(field.type for field in kind.fields if field.encode_name == step)
        elif step is not None:
            kind = kind.item_type
    return kind, said


def _bounds(kind: Any) -> str:
    """Values that a type allows, in words; empty where it takes more than that to say it."""
    match kind:
        case inspect.EnumType(cls=members):
            return f"one of {', '.join(str(one.value) for one in members)}"
        case inspect.IntType(ge=least, le=most) if least is not None and most is not None:
            return f"a whole number of {least} to {most}"
        case inspect.IntType(ge=least):
            return "a whole number" if least is None else f"a whole number of at least {least}"
        case inspect.FloatType():
            return "a number"
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "a text in quotes"
        case inspect.StructType():
            return "a table"
        case inspect.VarTupleType():
            return "a list"
        case _:
            return ""
