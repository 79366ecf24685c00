"""The shell script that undoes trimtab's changes of an nginx, for a user without trimtab."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from trimtab.plants import _own_file
from trimtab.plants.nginx.attached import Attached
from trimtab.plants.nginx.edits import beside, kept, original
from trimtab.plants.nginx.locations import Location

_PUT_BACK = """\
kept={kept} aside={aside} file={file} original={original}
if [ -e "$kept" ]; then
    if tail -n 1 "$kept" | grep -q "\\"$(sha256sum < "$file" | cut -d' ' -f1)\\""; then
        if printf '%s' "$original" | cmp -s - "$aside"; then
            mv -f "$aside" "$file"
        else
            fresh=$(mktemp "$kept.XXXXXXXXXX")
            cp -p "$file" "$fresh"
            printf '%s' "$original" > "$fresh"
            mv -f "$fresh" "$file"
        fi
        rm -f "$aside" "$kept"
    else
        echo "$file was edited since: remove $kept, and put back by hand" {values} >&2
        exit 1
    fi
fi"""


def script(nginx: Attached, locations: Mapping[str, Location]) -> str:
    """A POSIX shell script: puts the files back, checks the configuration, reloads.

    It goes back to what was there before the first run that has left something; an operator's file that was edited
    since is left alone.

    Args:
        nginx: the running nginx.
        locations: where each knob is set.
    """
    texts = nginx.config.texts
    own = sorted({location.path for location in locations.values() if location.directive is None})
    theirs = sorted({location.path for location in locations.values() if location.directive is not None})
    lines = [_own_file.put_back(path, _own_file.before_all(texts.get(path))) for path in own]
    lines += [_operators(path, texts[path], locations) for path in theirs]
    return nginx.master.undo_script(lines, ["env", "-i", *nginx.program.argv, "-t", "-q"], "HUP")


def _operators(path: Path, text: str, locations: Mapping[str, Location]) -> str:
    """Puts back an operator's file."""
    earlier = kept(path)
    words = [one.directive for one in locations.values() if one.path == path and one.directive is not None]
    return _PUT_BACK.format(
        kept=shlex.quote(str(beside(path))),
        aside=shlex.quote(str(original(path))),
        file=shlex.quote(str(path)),
        original=shlex.quote(earlier.original if earlier else text),
        values=shlex.quote("; ".join(f"{one.name} {one.words[1].text}" for one in words)),
    )
