"""Ledger of a run's settings in an nginx, and of the files' texts before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trimtab.plants import _own_file
from trimtab.plants._change import Texts
from trimtab.plants.nginx import edits
from trimtab.plants.nginx.configuration import Configuration
from trimtab.plants.nginx.edits import is_kept
from trimtab.plants.nginx.knobs import set_by, value_of
from trimtab.plants.nginx.locations import Location


@dataclass
class Ledger:
    """The books of one run.

    Args:
        locations: where each knob is set.
        start: where each knob was set when the run began, and with which words.
        filed: value that the files gave each knob then; what was in force may be another, of an earlier reload.
        values: knob name to the value that we have set; none before the first change and after one that has brought
            back all that was before it.
        written: texts that we have written last, in the order in which files are written.
        before: texts of these files before the run.
    """

    locations: Mapping[str, Location]
    start: Mapping[str, tuple[Path | None, tuple[str, ...]]]
    filed: Mapping[str, int]
    values: dict[str, int] = field(default_factory=dict)
    written: Texts = field(default_factory=dict)
    before: Texts = field(default_factory=dict)

    @staticmethod
    def of(config: Configuration, locations: Mapping[str, Location]) -> Ledger:
        """An empty ledger.

        Args:
            config: as it is at the start of the run.
            locations: where each knob is set.
        """
        words = {knob: _words(config, knob) for knob in locations}
        return Ledger(locations, words, {knob: value_of(config, knob) for knob in locations})

    def needless(self, values: Mapping[str, int]) -> bool:
        """Whether the files set these values without what the run has written in them.

        Those of a killed run that goes on, or with an edit that was not in force, set others than it began with.
        """
        return bool(self.values) and all(self.filed.get(knob) == value for knob, value in values.items())

    def edited(self, config: Configuration, knobs: Iterable[str]) -> dict[str, str]:
        """The knobs that somebody else has set, each with a message.

        Args:
            config: as it is on disk now.
            knobs: those to look at beside ours.
        """
        found = {}
        for knob in {*knobs, *self.values}:
            path, words = _words(config, knob)
            if knob in self.values:
                edited = value_of(config, knob) != self.values[knob] or path != self.locations[knob].path
            else:
                edited = (path, words) != self.start[knob]
            if edited:
                where = path or self.start[knob][0] or self.locations[knob].path
                found[knob] = f"{knob} was edited in {where}; trimtab leaves it alone now"
        return found

    def rebase(self) -> None:
        """Adds the operator's edits since to the texts from before the run, so that they outlive `restore`.

        Raises:
            UsageError: a file cannot be read.
        """
        for path, text in edits.present(self.written).items():
            if not is_kept(path):
                self.before[path] = edits.taken_back(path, text, self.before[path], self.written[path])

    def first(self, texts: Texts) -> Texts:
        """Present texts of those files that this run writes for the first time.

        Raises:
            UsageError: one cannot be read.
        """
        return edits.present({path: None for path in texts if path not in self.before})

    def took(self, values: Mapping[str, int], texts: Texts, first: Texts) -> None:
        """Enters a change that is in force.

        Args:
            values: knob name to value, of all knobs that are ours then.
            texts: the texts written.
            first: earlier texts of the files that the run had not touched before.
        """
        self.before |= first
        self.written |= texts
        self.values = dict(values)

    def earlier(self, texts: Texts) -> tuple[Texts, Texts]:
        """Texts of the files when only these are ours, where the edits of others stay, and their present texts.

        What is kept of an operator's file comes after that file, which is not known as edited without it; before it
        where it is not there.

        Raises:
            UsageError: one cannot be read.
        """
        wanted = {**texts, **{path: self.before[path] for path in self.written if path not in texts}}
        now, ours, last_first = edits.present(wanted), self.written, reversed(wanted.items())
        back = {path: edits.taken_back(path, now[path], text, ours.get(path)) for path, text in last_first}
        return dict(sorted(back.items(), key=lambda one: not (is_kept(one[0]) and now[one[0]] is None))), now

    def go_back(self, values: Mapping[str, int], texts: Texts) -> None:
        """Enters that a change was taken back.

        Args:
            values: knob name to value as they were before it.
            texts: texts that we had written before it.
        """
        self.values, self.written = dict(values), dict(texts)
        self.before = {path: text for path, text in self.before.items() if path in texts}

    def original(self) -> tuple[Texts, str]:
        """Texts of the files after an undo, and a message where one of our own was edited.

        Raises:
            UsageError: one cannot be read.
        """
        texts, theirs = Texts(), ""
        for path, now in reversed(edits.present(self.written).items()):
            before, ours = self.before[path], self.written[path]
            if before is None and now not in (ours, before) and not is_kept(path):
                theirs = _own_file.taken_over(path, now)
            else:
                texts[path] = before if is_kept(path) else edits.taken_back(path, now, before, ours)
        return texts, theirs

    def close(self) -> None:
        """Everything is as it was before the run."""
        self.values, self.written, self.before = {}, {}, {}


def _words(config: Configuration, knob: str) -> tuple[Path | None, tuple[str, ...]]:
    """Path and words of a knob's setting; no path where it is not set."""
    one = set_by(config, knob)
    return (None, ()) if one is None else (one.file, one.args)
