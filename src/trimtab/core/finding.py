"""A finding of the doctor: one thing that can or cannot be used here, and how to enable it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Result of a probe.

    Args:
        subject: the part probed, such as "apache pid 812" or "accept queue of 127.0.0.1:80".
        usable: whether trimtab can use it with the present permissions.
        detail: the finding, or why it cannot be used, in one line.
        enable: instruction that would make it usable; empty when it is.
    """

    subject: str
    usable: bool
    detail: str
    enable: str = ""
