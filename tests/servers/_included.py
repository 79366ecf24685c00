"""Files of an operator's that a private server includes."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Including:
    """A bed whose server includes the files of a directory."""

    testbed: Any

    @property
    def snippets(self) -> Path:
        """The directory."""
        return Path(self.testbed.snippet_directory)

    def write(self, name: str, text: str | None) -> None:
        """An operator's file among the included ones; None takes it away."""
        path = self.snippets / name
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text)
