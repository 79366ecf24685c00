"""Texts that trimtab writes in an nginx's configuration: its own files, and one value in the operator's.

Beside each of the operator's files that is edited stands a hidden file, which no include reads. It carries the
whole file as it was, each value before and after, and a checksum of itself and of the edited file. It is written
before the file is edited and goes after that is put back. So a later trimtab knows after a SIGKILL at any point what
to put back: the whole file where nobody else has edited it since, else each value that still is ours, and the
operator's edits stay. The file itself stays under a second hidden name, so that it comes back on a full disk too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trimtab import codec
from trimtab.errors import UsageError
from trimtab.files import present as status_of
from trimtab.files import remove
from trimtab.plants import _own_file
from trimtab.plants._change import Texts
from trimtab.plants.nginx.configuration import Configuration, text_of
from trimtab.plants.nginx.knobs import SETTINGS
from trimtab.plants.nginx.locations import Location, as_it_was, is_ours
from trimtab.plants.nginx.syntax import directives
from trimtab.trust import require_trusted


class _State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the file besides the original; the fields are those of `Kept`."""

    edited: str
    values: dict[str, tuple[str, str]]
    found: str = ""


@dataclass(frozen=True)
class Kept:
    """Content of the hidden file beside an edited one.

    Args:
        original: the whole file, as it was before the first edit.
        edited: checksum of the file as it was edited.
        values: directive to the word before and the word that trimtab wrote.
        found: checksum of the file as it was just before that, perhaps with an earlier word of trimtab's.
    """

    original: str
    edited: str
    values: Mapping[str, tuple[str, str]]
    found: str = ""


def beside(path: Path) -> Path:
    """Path of the hidden file beside an edited one."""
    return path.with_name(f".{path.name}.trimtab")


def original(path: Path) -> Path:
    """Path of an operator's file as it was, by the file or by the hidden one beside it."""
    name = path.name.removeprefix(".").removesuffix(".trimtab") if is_kept(path) else path.name
    return as_it_was(path.with_name(name))


def is_kept(path: Path) -> bool:
    """Whether a file is one that stands beside an operator's."""
    return path.name.startswith(".") and path.name.endswith(".trimtab")


def replace(path: Path, text: str) -> None:
    """Puts a text in the place of an operator's file, which stays under another name until it comes back from there.

    Args:
        path: the file.
        text: its new text.

    Raises:
        UsageError: others could change what is written, or something else is in its place.
        OSError: it could not be done; what was there before still is.
    """
    require_trusted(path.parent)
    aside, before = original(path), status_of(path)
    if _own_file.read(aside) == text and before is not None and _rights(before) == _rights(aside.lstat()):
        os.rename(aside, path)  # takes no room on the disk
        remove(aside)  # which only syncs
        return
    made = False
    with contextlib.suppress(OSError):  # it is there since an earlier change, or cannot be made here
        os.link(path, aside, follow_symlinks=False)
        made = True
    try:
        _own_file.write(path, text)
    except BaseException:
        if made:  # a file with two names is not edited
            _own_file.write(aside, None)
        raise


def _rights(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mode, status.st_uid, status.st_gid


def kept(path: Path) -> Kept | None:
    """Content of the hidden file beside a file; None where there is none of trimtab's.

    Raises:
        UsageError: something else is in its place, or it cannot be read, or is not as trimtab wrote it.
    """
    text = _own_file.read(beside(path))
    found = None if text is None else _own_file.leftover(text)
    if found is None or found.before is None:
        return None
    try:
        state = codec.decode(found.text.split("\n", 2)[2].removeprefix("# "), _State)
    except ValueError as error:
        raise UsageError(f"{beside(path)} is not as trimtab wrote it: {error}") from None
    return Kept(found.before, state.edited, state.values, state.found)


def written(
    configuration: Configuration, locations: Mapping[str, Location], values: Mapping[str, int], before: Texts
) -> Texts:
    """The files with these values.

    Args:
        configuration: as it is on disk.
        locations: where each knob is set.
        values: knob name to value, of all knobs that trimtab sets.
        before: texts from before the run of the files that it has touched.

    Raises:
        UsageError: what is kept beside a file cannot be read.
    """
    states: Texts = {}
    files: Texts = {}
    for path in dict.fromkeys(locations[knob].path for knob in values):
        here = {knob: value for knob, value in values.items() if locations[knob].path == path}
        if any(locations[knob].directive is None for knob in here):
            body = "".join(SETTINGS[knob].line(value) for knob, value in here.items())
            files[path] = _own_file.compose(body, before.get(path, configuration.texts.get(path)))
        else:
            states[beside(path)], files[path] = _edited(configuration.texts[path], path, here)
    return {**states, **files}


def _edited(text: str, path: Path, values: Mapping[str, int]) -> tuple[str, str]:
    """Texts of the hidden file beside a file, and of the file with these values."""
    earlier = kept(path)
    original = put_back(path, text, earlier) if earlier else text
    after = _replaced(text, path, {SETTINGS[knob].directive: SETTINGS[knob].word(v) for knob, v in values.items()})
    was, now = _words(original, path), _words(after, path)
    state = _State(checksum(after), {n: (was[n], now[n]) for n in was if was[n] != now[n]}, checksum(text))
    return _own_file.compose(f"# {codec.encode(state)}\n", original), after


def put_back(path: Path, text: str, keeps: Kept) -> str:
    """A file's text without trimtab's edits; the edits of others stay.

    Args:
        path: the file.
        text: its present text.
        keeps: content of the hidden file beside it.
    """
    if checksum(text) in (keeps.edited, keeps.found):
        return keeps.original
    now = _words(text, path)
    ours = {name: was for name, (was, written) in keeps.values.items() if now.get(name) == written}
    return _replaced(text, path, ours)


def taken_back(path: Path, now: str | None, before: str | None, ours: str | None) -> str | None:
    """Text of a file after an undo; the edits of others stay.

    Args:
        path: the file.
        now: its present text.
        before: its text before the run.
        ours: the text that the run has written.
    """
    if now == ours or now is None or before is None or ours is None:
        return before if now == ours else now
    was, wrote = _words(before, path), _words(ours, path)
    values = {name: (was[name], wrote[name]) for name in was if name in wrote and was[name] != wrote[name]}
    return put_back(path, now, Kept(before, checksum(ours), values))


def leftovers(configuration: Configuration) -> Texts:
    """Files left by earlier runs, with the text that each shall have instead.

    Raises:
        UsageError: what is kept beside a file cannot be read.
    """
    found: Texts = {}
    for path, text in configuration.texts.items():
        if is_ours(configuration, path):
            found[path] = _own_file.before_all(text)
        elif keeps := kept(path):
            found[path] = put_back(path, text, keeps)
            found[beside(path)] = None
    return found


def present(texts: Texts) -> Texts:
    """Present texts of these files.

    Raises:
        UsageError: one cannot be read, or somebody else can change it.
    """
    return {path: text_of(path) if path.exists() else None for path in texts}


def require_unchanged(configuration: Configuration, texts: Texts) -> None:
    """Makes sure, just before files are written, that nobody has edited them since they were read.

    Raises:
        UsageError: somebody has, or one cannot be read.
    """
    for path, now in present(texts).items():
        if path in configuration.texts and now != configuration.texts[path]:
            raise UsageError(f"{path} is being edited by somebody else")


def checksum(text: str) -> str:
    """Checksum of a file's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _words(text: str, path: Path) -> dict[str, str]:
    """Directive to its first word as it is written, quotes included, of the directives that trimtab can set."""
    return {name: text[start:end] for name, (start, end) in _spans(text, path).items()}


def _replaced(text: str, path: Path, words: Mapping[str, str]) -> str:
    """A text with the first words of these directives replaced."""
    spans = _spans(text, path)
    for name in sorted(words, key=lambda one: spans[one][0], reverse=True):
        start, end = spans[name]
        text = text[:start] + words[name] + text[end:]
    return text


def _spans(text: str, path: Path) -> dict[str, tuple[int, int]]:
    """Directive to where its first word stands, of those that trimtab can set."""
    known = {setting.directive: setting.context for setting in SETTINGS.values()}
    found: dict[str, tuple[int, int]] = {}
    for one in directives(text, path):
        inner = known.get(one.name)
        # The file may itself be included in the context, so that is compared from its inner end.
        if inner is not None and len(one.words) > 1 and inner[len(inner) - len(one.context) :] == one.context:
            if one.name in found:
                raise UsageError(f"{one.name} is set twice in {path}")
            found[one.name] = (one.words[1].start, one.words[1].end)
    return found
