"""Files of an operator's that a private server includes, and what makes them a stranger's to change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests._stranger import STRANGER


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


def give_file(bed: Including) -> Path:
    """Its main file is the stranger's."""
    path = Path(bed.testbed.config_file)
    os.chown(path, STRANGER, -1)
    return path


def open_directory(bed: Including) -> Path:
    """Everybody may put files into the directory."""
    bed.snippets.chmod(0o777)
    return bed.snippets


def give_link(bed: Including) -> Path:
    """A link in the directory is the stranger's."""
    path = bed.snippets / "link.conf"
    path.symlink_to("/etc/shadow")
    os.chown(path, STRANGER, -1, follow_symlinks=False)
    return path
