"""Models: what they predict, how they are written, and which are refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from trimtab.errors import UsageError
from trimtab.identification.model import Model, parse_model
from trimtab.identification.model_file import ModelFile, read_model
from trimtab.identification.signals import Kind, Pair

PAPER = Model((0.74, -0.37), (0.95, -0.12))


def test_it_predicts_by_eq_2() -> None:
    assert PAPER.predicted((3.0, 2.0, 1.5, 1.0)) == pytest.approx(0.74 * 3 - 0.37 * 2 + 0.95 * 1.5 - 0.12)


def test_a_constant_input_leads_to_the_gain_times_it() -> None:
    v1 = v2 = 0.0
    for _ in range(200):
        v1, v2 = PAPER.predicted((v1, v2, 2.0, 2.0)), v1
    assert v1 == pytest.approx(2.0 * PAPER.gain)


def test_its_poles_are_roots_of_its_own_polynomial() -> None:
    for pole in PAPER.poles():
        assert abs(pole**2 - 0.74 * pole + 0.37) < 1e-12
    assert abs(PAPER.poles()[0]) == pytest.approx(math.sqrt(0.37))


def test_it_is_read_as_it_is_written() -> None:
    assert parse_model("0.74,-0.37,0.95,-0.12") == PAPER
    assert parse_model(str(PAPER)) == PAPER
    assert parse_model("-0.5, 1") == Model((-0.5,), (1.0,))


@pytest.mark.parametrize("text", ["", "1", "1,2,3", "a,b", "0.5;1", "1,2,", "nan,1", "0.5,inf"])
def test_what_is_no_model_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_model(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Model((1.0,), (1.0,)), "unstable"),
        (Model((0.5, 0.6), (1.0, 0.0)), "unstable"),
        (Model((0.0, -1.1), (1.0, 0.0)), "unstable"),
        (Model((0.5, 0.1), (1.0, -1.0)), "no lasting effect"),
        (Model((0.5,), (0.0,)), "no lasting effect"),
    ],
)
def test_an_unstable_model_and_one_without_an_effect_are_refused(model: Model, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        model.usable()


def test_stable_models_are_usable() -> None:
    for model in (PAPER, Model((0.0,), (1.0,)), Model((-0.99,), (-1.0,))):
        assert model.usable() is model


def test_a_model_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = ModelFile(PAPER, Pair(Kind.ABSOLUTE, "a", "b", "connection_delay_p95_s"), 3.5, {"seeds": [1, 2]})
    written.write(tmp_path / "model.json")
    assert read_model(tmp_path / "model.json") == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "other"}',
        '{"format": "trimtab-model-1", "a": [1], "b": [1], "kind": "relative", "classes": ["a"], "period_s": 1}',
        '{"format": "trimtab-model-1", "a": [1], "b": [], "kind": "relative", "classes": ["a", "b"], "period_s": 1}',
        '{"format": "trimtab-model-1", "a": [1], "b": [1], "kind": "other", "classes": ["a", "b"], "period_s": 1}',
        '{"format": "trimtab-model-1", "a": [1], "b": [1], "kind": "relative", "classes": ["a", "b"], "period_s": 0}',
    ],
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(UsageError):
        read_model(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_model(tmp_path / "none.json")
