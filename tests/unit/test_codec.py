"""The codec: what goes in comes out, and nothing else comes in."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trimtab import codec
from trimtab.core import Domain, How, Knob, Move, Objective
from trimtab.settings import Mode, Settings


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Leaf:
    value: float
    names: frozenset[tuple[str, int]] = frozenset()
    bins: Mapping[int, float] = field(default_factory=dict)
    colour: Colour | None = None


@dataclass(frozen=True)
class Branch:
    leaves: tuple[Leaf, ...]
    first: Leaf | None = None


floats = st.floats(allow_nan=False)
leaves = st.builds(
    Leaf,
    floats,
    st.frozensets(st.tuples(st.text(), st.integers(-(2**53), 2**53))),
    st.dictionaries(st.integers(), floats),
    st.none() | st.just(Colour.RED),
)


@settings(deadline=None)
@given(st.builds(Branch, st.lists(leaves).map(tuple), st.none() | leaves))
def test_a_record_comes_back_as_it_was(branch: Branch) -> None:
    text = codec.encode(branch)
    assert codec.decode(text, Branch) == branch
    assert "\n" not in text


def test_for_other_readers_what_is_not_finite_is_null_and_all_else_is_as_it_was() -> None:
    told = {"ends": math.inf, "rows": [(math.nan, 1.5), {"low": -math.inf}], "text": "NaN", "count": 3, "no": None}
    as_read = {"ends": None, "rows": [[None, 1.5], {"low": None}], "text": "NaN", "count": 3, "no": None}
    assert json.loads(codec.encode_strict(told), parse_constant=pytest.fail) == as_read
    assert codec.encode_strict(np.array([1.0, math.nan])) == "[1.0,null]"
    assert codec.encode(math.inf) == "Infinity", "the store needs it"


@settings(deadline=None)
@given(st.floats())
def test_every_float_comes_back_exactly(value: float) -> None:
    again = codec.decode(codec.encode(Leaf(value)), Leaf).value
    assert again == value or (math.isnan(again) and math.isnan(value))
    assert math.copysign(1, again) == math.copysign(1, value) or math.isnan(value)


@settings(deadline=None)
@given(
    st.builds(
        Move,
        st.dictionaries(st.text(), st.integers(-(2**53), 2**53)),
        st.text(),
        st.dictionaries(st.text(), floats),
        finished=st.booleans(),
        incumbent=st.none() | st.dictionaries(st.text(), st.integers(-9, 9)),
    )
)
def test_a_move_comes_back_as_it_was(move: Move) -> None:
    assert codec.decode(codec.encode(move), Move) == move


def test_what_a_run_is_told_comes_back_as_it_was() -> None:
    told = Settings(1.5, math.inf, Objective("cpu_ratio", False), Mode.ADVISE)
    knob = Knob("pm", "pm", "", Domain.choice("static", "dynamic"), 1, How.RELOAD, "a reload", "how it grows")
    assert codec.decode(codec.encode(told), Settings) == told
    assert codec.decode(codec.encode([knob]), tuple[Knob, ...]) == (knob,)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"leaves": [], "twig": 1}', r"unknown field `twig` - at `\$`"),
        ('{"leaves": [{"value": 1}, {"value": 1, "twig": 1}]}', r"unknown field `twig` - at `\$.leaves\[1\]`"),
        ('{"leaves": [], "first": {"value": 1, "twig": {}}}', r"unknown field `twig` - at `\$.first`"),
        ('{"leaves": [{}]}', r"missing required field `value` - at `\$.leaves\[0\]`"),
        ('{"leaves": [{"value": "1"}]}', r"Expected `float`, got `str` - at `\$.leaves\[0\].value`"),
        ('{"leaves": [{"value": true}]}', "Expected `float`, got `bool`"),
        ('{"leaves": [{"value": 1, "colour": "blue"}]}', "Invalid enum value 'blue'"),
        ('{"leaves": 3}', "Expected `array`, got `int`"),
        ("[]", "Expected `object`, got `array`"),
        ("nonsense", "Expecting value"),
        ("[" * 100_000, "too deeply"),
        ('{"leaves": ' + "[" * 480 + "]" * 480 + "}", "Expected `object`, got `array`"),
    ],
)
def test_anything_else_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        codec.decode(text, Branch)


@dataclass(frozen=True)
class Weights:
    layer: NDArray[np.float64]


@settings(deadline=None)
@given(st.lists(st.lists(floats, min_size=2, max_size=2), min_size=1))
def test_an_array_comes_back_with_every_number(rows: list[list[float]]) -> None:
    again = codec.decode(codec.encode(Weights(np.array(rows))), Weights)
    assert np.array_equal(again.layer, np.array(rows))
    assert codec.encode(np.float64(0.1)) == "0.1"


def test_what_cannot_be_stored_is_refused() -> None:
    with pytest.raises(TypeError, match="a Random cannot be stored"):
        codec.encode({"generator": random.Random(1)})


def test_a_text_that_is_nested_deeply_where_anything_may_be_is_refused_and_no_more() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        codec.decode("[" * 900 + "]" * 900, Any)


class Sort(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    name: Annotated[str, msgspec.Meta(max_length=5, description="a name of at most 5 letters")]
    colour: Colour = Colour.RED
    least_count: Annotated[int, msgspec.Meta(ge=1)] = 1
    sizes: tuple[Annotated[int, msgspec.Meta(ge=1, le=9)], ...] = ()
    dry: bool = False
    weight: float | None = None


class Shelf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sorts: tuple[Sort, ...]
    best: Sort | None = None


@pytest.mark.parametrize(
    ("sort", "says"),
    [
        ({}, "name is missing"),
        ({"name": "pear", "colours": 1}, "unknown key 'colours'; did you mean colour?"),
        ({"name": "pear", "q\n": 1}, "unknown key 'q\\n': there are name, colour, least-count, sizes, dry, weight"),
        ({"name": "quince"}, "name 'quince' is not a name of at most 5 letters"),
        ({"name": "pear", "colour": "blue"}, "colour 'blue' is not one of red"),
        ({"name": "pear", "least-count": 0}, "least-count 0 is not a whole number of at least 1"),
        ({"name": "pear", "sizes": [3, 10]}, "sizes has 10, which is not a whole number of 1 to 9"),
        ({"name": "pear", "sizes": 3}, "sizes 3 is not a list"),
        ({"name": "pear", "dry": 1}, "dry 1 is not true or false"),
        ({"name": "pear", "weight": "1"}, "weight '1' is not a number"),
    ],
)
def test_what_a_user_wrote_is_refused_with_its_name_its_value_and_what_is_allowed(
    sort: dict[str, object], says: str
) -> None:
    with pytest.raises(ValueError) as in_a_list:
        codec.table({"sorts": [{"name": "plum"}, sort]}, Shelf)
    assert str(in_a_list.value) == f"sorts 2: {says}"
    with pytest.raises(ValueError) as alone:
        codec.table(sort, Sort)
    assert str(alone.value) == says
    with pytest.raises(ValueError) as below:
        codec.table({"sorts": [], "best": sort}, Shelf)
    assert str(below.value).replace("best.", "") == says


@pytest.mark.parametrize(
    "key", ["x - at `$.sorts", "x - at `$.sorts[0].name", "x - at `$.sorts[7]", "x` - at `$.none\n"]
)
def test_a_key_that_looks_like_a_place_is_said_in_one_line(key: str) -> None:
    with pytest.raises(ValueError, match="x") as error:
        codec.table({"sorts": [{"name": "plum"}], key: 1}, Shelf)
    assert "\n" not in str(error.value)


def test_a_table_is_what_its_keys_say() -> None:
    wanted = Shelf((Sort("plum", least_count=3, sizes=(1, 2), weight=2.0),))
    assert codec.table({"sorts": [{"name": "plum", "least-count": 3, "sizes": [1, 2], "weight": 2}]}, Shelf) == wanted


def test_a_stored_run_whose_wait_is_refused_by_now_can_be_read() -> None:
    """One of them kept every verb from the whole store."""
    long = Settings(10.0, 60.0, settle_s=3600.0)
    assert codec.decode(codec.encode(long), Settings) == long
