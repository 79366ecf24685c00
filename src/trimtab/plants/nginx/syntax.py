"""nginx's configuration language, read into directives that know where each of their words stands in the file.

From src/core/ngx_conf_file.c (`ngx_conf_read_token`): words end at white space, `;` and `{`; quotes are understood at
the start of a word only, as are `#`, which begins a comment, and `}`; a backslash keeps the next character, and `${`
within a word does not open a block. A block of Lua is skipped up to its closing brace; braces in its strings and
comments are none (`ngx_http_lua_lex` of lua-nginx-module). What does not come out even is an error, never a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from trimtab.errors import UsageError

_SPACE = " \t\r\n"
_LUA = re.compile(
    r"""(?:--)?\[(=*)\[.*?\]\1\]|--[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{}]""",
    re.DOTALL,
)
"""What matters in a block of Lua: comments and strings, both also in long brackets, and braces."""


@dataclass(frozen=True)
class Word:
    """One word.

    Args:
        text: the word without quotes and backslashes.
        start: where it begins in the text, quotes included.
        end: where it ends.
    """

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Directive:
    """One directive.

    Args:
        words: its name and its arguments.
        context: the names of the blocks in which it stands, the outermost first.
        block: where the innermost of these blocks opens, which tells two of the same name apart; empty at the top.
        file: where it stands.
        line: its line there, from 1.
    """

    words: tuple[Word, ...]
    context: tuple[str, ...]
    block: str
    file: Path
    line: int

    @property
    def name(self) -> str:
        """Its name."""
        return self.words[0].text

    @property
    def args(self) -> tuple[str, ...]:
        """Its arguments."""
        return tuple(word.text for word in self.words[1:])

    @property
    def opens(self) -> str:
        """The block that it opens, as those within it have it in `block`."""
        return f"{self.file}:{self.words[0].start}"

    @property
    def where(self) -> str:
        """File and line."""
        return f"{self.file}:{self.line}"


def directives(text: str, file: Path, context: tuple[str, ...] = (), block: str = "") -> list[Directive]:
    """The directives of a text, those within blocks after the one that opens the block.

    Args:
        text: the text of a file.
        file: its name.
        context: where it is included.
        block: where the block of that place opens.

    Raises:
        UsageError: it is not nginx's language.
    """
    found: list[Directive] = []
    open_blocks: list[tuple[str, str]] = []
    words: list[Word] = []
    at, line, counted = 0, 1, 0
    while True:
        at = _skip(text, at)
        mark = text[at] if at < len(text) else ""
        if mark not in (";", "{", "}", ""):
            word = _word(text, at, file)
            words.append(word)
            at = word.end
            continue
        if mark in ("}", "") and (words or bool(open_blocks) != (mark == "}")):
            raise UsageError(f"{file}:{_line(text, at)} is not in nginx's language: unexpected {mark or 'end'}")
        if mark == "":
            return found
        at += 1
        if mark == "}":
            open_blocks.pop()
            continue
        if not words:
            raise UsageError(f"{file}:{_line(text, at)} is not in nginx's language: unexpected {mark}")
        line += text.count("\n", counted, words[0].start)
        counted = words[0].start
        inner = (*context, *(name for name, _ in open_blocks))
        found.append(Directive(tuple(words), inner, open_blocks[-1][1] if open_blocks else block, file, line))
        if mark == "{" and words[0].text.endswith("_by_lua_block"):
            at = _past_lua(text, at, file)
        elif mark == "{":
            open_blocks.append((words[0].text, found[-1].opens))
        words = []


def _skip(text: str, at: int) -> int:
    """Past white space and comments."""
    while at < len(text):
        if text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif text[at] not in _SPACE:
            break
        else:
            at += 1
    return at


def _word(text: str, start: int, file: Path) -> Word:
    """The word that begins there."""
    quote = text[start] if text[start] in "\"'" else ""
    at, said = start + len(quote), list[str]()
    while at < len(text):
        letter = text[at]
        if letter == "\\" and at + 1 < len(text):
            said.append(text[at + 1] if text[at + 1] in "\"' \\" else text[at : at + 2])
            at += 2
            continue
        if quote and letter == quote:
            return Word("".join(said), start, at + 1)
        if not quote and (letter in _SPACE or letter in ";{") and not (letter == "{" and said[-1:] == ["$"]):
            return Word("".join(said), start, at)
        said.append(letter)
        at += 1
    if quote:
        raise UsageError(f"{file}:{_line(text, start)} is not in nginx's language: a quote does not end")
    return Word("".join(said), start, at)


def _past_lua(text: str, at: int, file: Path) -> int:
    """Past the brace that closes a block of Lua."""
    depth = 1
    for found in _LUA.finditer(text, at):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if not depth:
            return found.end()
    raise UsageError(f"{file}:{_line(text, at)} is not in nginx's language: a block of Lua does not end")


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
