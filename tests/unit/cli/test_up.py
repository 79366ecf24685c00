"""`trimtab lab up shop`: what is refused before anything starts, and the file for `tune stack`."""

from __future__ import annotations

import contextlib
import os
import signal
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from trimtab.cli import _up, main
from trimtab.testbed.shop import Shop, ShopSpec, stack_text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--items", "7"], "--items"),
        (["--browsers", "0"], "browsers = 0"),
        (["--cores", "0"], "--cores 0"),
        (["--cores", "nan"], "--cores nan"),
        (["--best-sellers-cache", "31"], "0 to 30 are allowed"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["lab", "up", "shop", "--stack", str(tmp_path / "shop.toml"), *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (tmp_path / "shop.toml").exists()


def test_somebody_elses_file_is_not_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text("[tiers.web]\n")
    assert main(["lab", "up", "shop", "--stack", str(mine)]) == 2
    assert "choose another name" in capsys.readouterr().err
    assert mine.read_text() == "[tiers.web]\n"


def test_the_file_names_each_tier_by_its_plant_and_process_and_the_clients_by_the_population() -> None:
    tiers = [(name, SimpleNamespace(pid=pid), plant) for name, pid, plant in (("a", 1, "squid"), ("b", 2, "tomcat"))]
    running: Any = SimpleNamespace(tiers=tiers, spec=ShopSpec(browsers=3), url="http://127.0.0.1:1/shop/")
    read = tomllib.loads(stack_text(cast(Shop, running)))
    assert read["tiers"] == {
        "a": {"plant": "squid", "pid": 1, "accept-lost-connections": True},
        "b": {"plant": "tomcat", "pid": 2},
    }
    assert read["clients"]["customers"] == 3 * 2880 and read["clients"]["url"] == running.url


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("open_first", [False, True])
def test_a_signal_is_answered_and_what_it_ends_is_cleared_away_whole(
    number: signal.Signals,
    open_first: bool,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    cleared = []

    @contextlib.contextmanager
    def private(spec: ShopSpec, say: Callable[[str], None]) -> Iterator[Any]:
        try:
            say("starting MariaDB")
            if not open_first:
                os.kill(os.getpid(), number)
            yield SimpleNamespace(tiers=(), spec=spec, url="http://127.0.0.1:1/shop/")
        finally:
            os.kill(os.getpid(), signal.SIGINT)  # an impatient user's second Ctrl-C
            cleared.append("all")

    monkeypatch.setattr(_up, "shop", private)
    monkeypatch.setattr(_up, "_require_alive", lambda running: os.kill(os.getpid(), number))
    before = signal.getsignal(signal.SIGINT)
    assert main(["lab", "up", "shop", "--stack", str(tmp_path / "shop.toml")]) == 128 + number
    said = capfd.readouterr()
    assert cleared == ["all"]
    assert said.err == "closing the shop\n"
    stack = tmp_path / "shop.toml"
    left = f" but {stack}" if open_first else ""
    assert stack.exists() == open_first
    assert said.out.splitlines()[-1].endswith(f"the shop is closed, and nothing of it is left{left}")
    assert signal.getsignal(signal.SIGINT) is before
