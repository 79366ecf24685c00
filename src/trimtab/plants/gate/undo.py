"""The undo script of a gate, for a user without trimtab."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from trimtab import codec


def script(control: Path, configuration: Mapping[str, int]) -> str:
    """A POSIX shell script that gives a gate back a configuration.

    Args:
        control: its control socket.
        configuration: knob name to value.
    """
    # Who gives an order with a lease closes a gate that is open.
    orders = ({"type": "lease"}, {"type": "apply", "changes": dict(configuration)}, {"type": "end_lease"})
    order = "\n".join(map(codec.encode, orders))
    socket = shlex.quote(os.fspath(control))
    return f"""#!/bin/sh
# Gives the gate back what was in force before trimtab moved it. A gate that has ended took its settings with it.
control={socket}
order={shlex.quote(order)}
[ -S "$control" ] || {{ echo "no gate runs at $control: there is nothing to undo"; exit 0; }}
if command -v socat >/dev/null 2>&1; then
    answer=$(printf '%s\\n' "$order" | socat -t 5 - "UNIX-CONNECT:$control")
elif command -v nc >/dev/null 2>&1 && nc -h 2>&1 | grep -q -e '-U'; then
    answer=$(printf '%s\\n' "$order" | nc -U -w 5 "$control")
elif command -v python3 >/dev/null 2>&1; then
    answer=$(python3 -c 'import socket, sys
link = socket.socket(socket.AF_UNIX)
link.settimeout(5)
link.connect(sys.argv[1])
link.sendall(sys.argv[2].encode() + b"\\n")
link.shutdown(socket.SHUT_WR)
print(link.makefile().read(), end="")' "$control" "$order")
else
    echo "this needs socat, nc with -U, or python3" >&2
    exit 1
fi
case $answer in
*'"refused"'*) ;;
*'"done"'*) echo "undone"; exit 0 ;;
esac
echo "the gate answered: $answer" >&2
exit 1
"""
