"""A shell script that undoes settings of a Tomcat, for a user without trimtab: it brings its own Java program."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from trimtab.plants.tomcat.java import OPTIONS, java, source
from trimtab.plants.tomcat.jmx import identity
from trimtab.plants.tomcat.journal import Entry, Paused
from trimtab.plants.tomcat.knobs import ACCEPT_COUNT
from trimtab.plants.tomcat.process import TomcatProcess
from trimtab.plants.tomcat.restart import LIMIT, REQUESTS, UNLIMITED
from trimtab.trust import printable

_END = "END_OF_THE_PROGRAM"


def nothing(why: str) -> str:
    """A script where there is nothing to undo."""
    return f"#!/bin/sh\n# There is nothing that trimtab could undo:\n# {printable(why)}\nexit 0\n"


def script(process: TomcatProcess, entries: Sequence[Entry], paused: Sequence[Paused] = ()) -> str:
    """The script, which leaves alone what somebody else has set since.

    Args:
        process: the Tomcat.
        entries: the settings made.
        paused: connectors that may be paused.

    Raises:
        UsageError: there is no Java, or the Tomcat has the rights of several users.
        PlantGone: it has ended.
    """
    if not (entries or paused):
        return nothing(f"nothing was set in {process}")
    asked = [words for one in paused for words in _serving(one)]
    asked += [("undo", "1", one.bean, one.attribute, str(one.before), *map(str, one.ours)) for one in entries]
    said = " ".join(shlex.quote("\t".join(words)) for words in asked)
    pid, started = process.pid, process.started
    queues = any(one.attribute == ACCEPT_COUNT.attribute for one in entries)
    later = "; the accept queue is as long as before once Tomcat is restarted" if queues else ""
    command = [*identity(process), java(process), *OPTIONS, "/dev/fd/3", str(pid)]
    return f"""#!/bin/sh
# Undoes what trimtab set in {process}. A Tomcat that has restarted since has nothing to undo.
set -e
cd /
[ "$(LC_ALL=C sed -n '$s/.*) //p' /proc/{pid}/stat 2>/dev/null | cut -d ' ' -f 20)" = {started} ] || {{
  echo "Tomcat (pid {pid}) has ended: there is nothing to undo"
  exit 0
}}
place=$(mktemp)
trap 'rm -f "$place"' EXIT
cat > "$place" <<'{_END}'
{source()}{_END}
chmod 644 "$place"
# Open beforehand: a Tomcat with a /tmp of its own does not see this file.
said=$(printf '%s\\n' {said} | {shlex.join(command)} 3< "$place") || {{
  printf '%s\\n' "${{said:-the program gave no answer}}" | LC_ALL=C tr -cd '\\n\\40-\\176' >&2
  exit 1
}}
case "$said" in
  *'"error"'*) printf '%s\\n' "$said" | LC_ALL=C tr -cd '\\n\\40-\\176' >&2; exit 1 ;;
esac
echo "undone{later}"
"""


def _serving(one: Paused) -> list[tuple[str, ...]]:
    """Questions that have a connector serve again."""
    limits = ((LIMIT, UNLIMITED, 0), (LIMIT, one.limit, UNLIMITED), (REQUESTS, one.requests, 1))
    values = [("undo", "1", one.endpoint, name, str(value), str(ours)) for name, value, ours in limits]
    return [*values, ("call", "1", one.connector, "resume", one.connector, "start")]
