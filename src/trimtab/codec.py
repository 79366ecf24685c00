"""The one codec: records to JSON and back, for the store, for `--json` and for the native programs' messages.

It is strict: an unknown key, a missing one and a value of another type are errors that name the place. Numbers come
back exactly, infinite ones and NaN too. A record is a dataclass, or a `msgspec.Struct` where its keys are not Python
names; a numpy array is a list of its numbers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, TypeVar, get_origin, get_type_hints

import msgspec

T = TypeVar("T")


def builtins(value: Any) -> Any:
    """A value as dicts, lists, texts and numbers.

    Args:
        value: records and whatever they hold; the keys of a mapping become texts.
    """
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)


def encode(value: Any) -> str:
    """A value as compact JSON in one line."""
    return json.dumps(builtins(value), separators=(",", ":"))


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
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if unknown := _unknown(raw, builtins(value), "$"):
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
