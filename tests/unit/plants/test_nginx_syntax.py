"""nginx's language: words, blocks, quotes and comments, each where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.errors import UsageError
from trimtab.plants.nginx.syntax import directives

FILE = Path("/etc/nginx/nginx.conf")
TEXT = """\
user www-data; # worker_processes 9;
worker_processes  'auto';
events{worker_connections 768;}
http {
    log_format main '$remote_addr { "$request" } ;';
    map $http_upgrade $connection { default upgrade; '' close; }
    server { listen 80; location ~ "^/a{2}\\.php$" { set $x ${y}z; return 200 "it's";} }
}
"""


def test_every_directive_is_in_its_context_with_its_words() -> None:
    found = {(one.context, one.name): one.args for one in directives(TEXT, FILE)}
    assert found[(), "worker_processes"] == ("auto",)
    assert found[("events",), "worker_connections"] == ("768",)
    assert found[("http",), "log_format"] == ("main", '$remote_addr { "$request" } ;')
    assert found[("http", "map"), ""] == ("close",)
    assert found[("http", "server"), "location"] == ("~", "^/a{2}\\.php$")
    assert found[("http", "server", "location"), "set"] == ("$x", "${y}z")
    assert found[("http", "server", "location"), "return"] == ("200", "it's")


class Counted(str):
    """A text that knows how much of it was looked at for ends of lines."""

    looked_at = 0

    def count(self, *args: Any) -> int:
        self.looked_at += args[2] - args[1]
        return super().count(*args)


def test_each_directive_has_its_line_and_the_lines_of_a_long_list_are_counted_once() -> None:
    text = Counted(TEXT + "deny 192.0.2.1;\n" * 1000)
    for one in directives(text, FILE):
        assert one.line == str(text).count("\n", 0, one.words[0].start) + 1
    assert text.looked_at < len(text)


def test_a_word_is_found_where_it_stands_with_its_quotes() -> None:
    one = next(d for d in directives(TEXT, FILE) if d.name == "worker_processes")
    assert TEXT[one.words[1].start : one.words[1].end] == "'auto'"
    assert one.where == f"{FILE}:2"


def test_two_blocks_of_the_same_name_are_told_apart() -> None:
    text = "server { listen 1; } server { listen 2; }"
    blocks = [one.block for one in directives(text, FILE) if one.name == "listen"]
    assert len(set(blocks)) == 2
    assert blocks == [one.opens for one in directives(text, FILE) if one.name == "server"]


def test_what_an_include_brings_is_in_the_context_of_the_include() -> None:
    (one,) = directives("keepalive_timeout 5;", FILE, ("http",), "there")
    assert (one.context, one.block) == (("http",), "there")


def test_lua_is_passed_over() -> None:
    text = "http { init_by_lua_block { if x then y = {1} end -- ; }\n } gzip on; }"
    assert [one.name for one in directives(text, FILE)] == ["http", "init_by_lua_block", "gzip"]


@pytest.mark.parametrize(
    "lua",
    [
        """ngx.say("{'a':1,") ngx.say('\\'}') """,
        """x = s:find('}', 1, true) -- a quote's brace: {\n""",
        """x = [[ } ]] y = [==[ ]] } ]==] --[[ }\n} ]] --[=[ ]] } ]=]""",
        """x = t[u[1]] - -1""",
    ],
)
def test_braces_in_strings_and_comments_of_lua_are_none(lua: str) -> None:
    text = f"http {{ content_by_lua_block {{ {lua} }} gzip on; }}"
    assert [one.name for one in directives(text, FILE)] == ["http", "content_by_lua_block", "gzip"]


@pytest.mark.parametrize(
    "text", ["http {", "}", "user", "user www-data }", "http { ; }", "a 'b;", "x_by_lua_block { {"]
)
def test_what_is_not_in_the_language_is_refused_and_never_guessed(text: str) -> None:
    with pytest.raises(UsageError, match=r"nginx\.conf:1 is not in nginx's language"):
        directives(text, FILE)


@given(st.text(alphabet="ab1 ;{}\"'\\$#\n", max_size=60))
def test_any_text_is_read_or_refused_and_words_stand_where_they_are_said_to(text: str) -> None:
    try:
        found = directives(text, FILE)
    except UsageError:
        return
    for one in found:
        ends = [0, *(end for word in one.words for end in (word.start, word.end))]
        assert ends == sorted(ends)
        assert one.words[-1].end <= len(text)
