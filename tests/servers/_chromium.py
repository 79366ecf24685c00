"""A real browser without a screen, driven through a pipe (the Chrome DevTools Protocol)."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from tests.servers.test_keep_alive_browser import ALONE

PATIENCE_S = 120.0


class Chromium:
    """One tab.

    Args:
        commands: descriptor for what it is to do.
        answers: descriptor of what it says.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, os.fdopen(answers, "rb")
        self._numbers, self._rest = itertools.count(1), b""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def close(self) -> None:
        """Ends the conversation."""
        self._answers.close()

    def open(self, url: str, page: str) -> None:
        """Goes to an address and waits for the page of this name."""
        self._call("Page.navigate", url=url)
        self.awaited(page)

    def become_a_phone(self, width: int) -> None:
        """Shows pages as a phone of so many pixels does."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=True)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        told = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def click(self, selector: str, page: str) -> None:
        """Clicks on the first such element and waits for the page of this name."""
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        self.awaited(page)

    def fill(self, form: str, **values: str) -> None:
        """Fills the fields of a form."""
        for name, value in values.items():
            field = json.dumps(f"{form} [name={name}]")
            self.run(f"document.querySelector({field}).value = {json.dumps(value)}")

    def awaited(self, page: str) -> None:
        """Waits until the page of this name is whole, images too."""
        deadline = time.monotonic() + PATIENCE_S
        seen = None
        while seen != page:
            assert time.monotonic() < deadline, f"{page} did not come: {seen}"
            time.sleep(0.01)  # the browser needs the processor too
            with contextlib.suppress(AssertionError, KeyError):
                seen = self.run("document.readyState === 'complete' && document.body.dataset.page")
            time.sleep(0.01)  # leaves the browser and the server some of the machine

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._rest:
                more = os.read(self._answers.fileno(), 65536)
                assert more, "the browser has ended"
                self._rest += more
            one, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(one)
            if answer.get("id") == number:
                told: dict[str, Any] = answer["result"]
                return told


@contextlib.contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser while this lasts, with a home of its own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        their_commands, commands = os.pipe()
        answers, their_answers = os.pipe()
        command = ["chromium", *ALONE, "--remote-debugging-pipe", f"--user-data-dir={home}"]
        # The protocol's descriptors are 3 and 4.
        script = f'exec "$@" 3<&{their_commands} 4>&{their_answers}'
        process = subprocess.Popen(
            ["/bin/bash", "-c", script, "bash", *command],
            pass_fds=(their_commands, their_answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": home},
        )
        os.close(their_commands)
        os.close(their_answers)
        try:
            tab = Chromium(commands, answers)
            yield tab
            tab.close()
        finally:
            os.close(commands)
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
