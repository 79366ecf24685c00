"""What a SPEC may say, and the one line with which everything else is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab import codec
from trimtab.errors import UsageError
from trimtab.files import MOST_BYTES
from trimtab.gate.spec import Full, Guarantee, Policy, Rule, Spec, load, parse

HEAD = """
listen = [8080]
workers = 128
period = "30s"
guarantee = "relative"
"""
PREMIUM = """
[[class]]
name = "premium"
match = [{ source = "127.0.1.0/24" }, { path = "/buy" }]
desired = 1
"""
BASIC = """
[[class]]
name = "basic"
desired = 3
"""
WHOLE = HEAD + PREMIUM + BASIC


def refused(text: str) -> str:
    with pytest.raises(UsageError) as error:
        parse(text)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_spec_is_read_with_its_defaults() -> None:
    spec = parse(WHOLE)
    assert (spec.listen, spec.workers, spec.period_s, spec.guarantee) == ((8080,), 128, 30.0, Guarantee.RELATIVE)
    assert (spec.policy, spec.borrow, spec.metrics) == (Policy.NON_PREEMPTIVE, False, None)
    assert spec.controller_timeout_s == 90.0
    premium, basic = spec.classes
    assert premium.rules == (Rule(source="127.0.1.0/24"), Rule(path="/buy"))
    assert (premium.desired, basic.desired, basic.rules) == (1.0, 3.0, ())
    assert [one.budget for one in spec.classes] == [64, 64]
    assert (basic.minimum, basic.queue, basic.full, basic.percentile) == (1, 10_000, Full.REFUSE_NEWEST, None)
    assert premium.delay_metric == "connection_delay_s@premium"


def test_the_start_line_has_every_key_that_the_gate_knows() -> None:
    text = WHOLE.replace('"/buy"', '"/buy", server-name = "Shop.example", local = "127.0.0.1:8080"')
    line = parse(text + 'percentile = 95\nbudget = 28\nqueue = 5\nfull = "refuse-oldest"\n').start(Path("/run/x"))
    assert json.loads(codec.encode(line)) == {
        "directory": "/run/x",
        "limit": 128,
        "classes": [
            {
                "name": "premium",
                "rules": [
                    {"source": "127.0.1.0/24"},
                    {"local": "127.0.0.1:8080", "path_prefix": "/buy", "server_name": "shop.example"},
                ],
                "budget": 100,
                "minimum": 1,
                "queue_limit": 10_000,
                "full": "refuse_newest",
            },
            {
                "name": "basic",
                "rules": [],
                "budget": 28,
                "minimum": 1,
                "queue_limit": 5,
                "full": "refuse_oldest",
            },
        ],
        "policy": "non_preemptive",
        "borrow": False,
        "peek_bytes": 8192,
        "peek_timeout_s": 5.0,
        "metrics": None,
        "controller_timeout_s": 90.0,
    }


def test_no_class_and_too_many_are_refused() -> None:
    assert refused(HEAD) == "there is no class: write [[class]] 1 to 64 times"
    assert refused(HEAD + "class = 3") == "class 3 is not a list of tables: write [[class]] before each"
    more = "".join(f'[[class]]\nname = "c{i}"\ndesired = 1\nmatch = [{{ path = "/{i}/" }}]\n' for i in range(63))
    assert len(parse(HEAD.replace("128", "200") + more + BASIC).classes) == 64
    assert "there are 65 classes" in refused(HEAD.replace("128", "200") + PREMIUM + more + BASIC)


def test_a_percentile_is_guaranteed_by_its_own_reading() -> None:
    assert parse(WHOLE + "percentile = 95").classes[1].delay_metric == "connection_delay_p95_s@basic"


def test_absolute_delays_are_durations_and_their_budgets_may_exceed_the_workers_together() -> None:
    text = WHOLE.replace('"relative"', '"absolute"').replace("desired = 1", 'desired = "10s"\nbudget = 100')
    spec = parse(text.replace("desired = 3", 'desired = "1m"\nbudget = 100'))
    assert [one.desired for one in spec.classes] == [10.0, 60.0]
    assert [one.budget for one in spec.classes] == [100, 100]


def test_the_band_of_the_hybrid_guarantee_is_a_tenth_of_the_first_delay_unless_given() -> None:
    text = WHOLE.replace('"relative"', '"hybrid"').replace("desired = 1", 'desired = "10s"')
    text = text.replace("desired = 3", 'desired = "30s"')
    assert parse(text).hysteresis_s == 1.0
    assert parse('hysteresis = "2s"' + text).hysteresis_s == 2.0
    assert "hysteresis 10 s is not below" in refused('hysteresis = "10s"' + text)


def test_without_a_guarantee_one_class_is_enough() -> None:
    spec = parse('listen = [80, 443]\nworkers = 10\n[[class]]\nname = "all"')
    assert spec.guarantee is Guarantee.NONE
    assert [one.budget for one in spec.classes] == [10]
    alone = '[[class]]\nname = "all"'
    assert "period has a meaning only with a guarantee" in refused(
        'listen = [80]\nworkers = 10\nperiod = "1s"\n' + alone
    )
    assert "percentile has a meaning only" in refused(f"listen = [80]\nworkers = 10\n{alone}\npercentile = 95")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("listen = [8080]", "", "listen is missing"),
        ("[8080]", "[]", "listen [] is not a list of ports"),
        ("[8080]", "8080", "listen 8080 is not a list of ports"),
        ("[8080]", "[0]", "listen has 0, which is not a port of 1 to 65535"),
        ("[8080]", "[true]", "listen has True, which is not a port"),
        ("[8080]", "[8080, 8080]", "listen has the port 8080 twice"),
        ("workers = 128", "", "workers is missing"),
        ("128", "0", "workers 0 is not a whole number of 1 to 65536"),
        ("128", "1.5", "workers 1.5 is not a whole number"),
        ("128", "true", "workers True is not a whole number"),
        ('"30s"', '"30"', "period '30' is not a duration"),
        ('"30s"', '""', "period '' is not a duration"),
        ('"30s"', "30", "period 30 is not a duration in quotes of more than 0 and at most a day, such as"),
        ('"30s"', '"0s"', "period '0s' is not a duration in quotes of more than 0"),
        ('"30s"', '"25h"', "period '25h' is not a duration in quotes of more than 0 and at most a day"),
        ('"30s"', '"2m"', "controller_timeout 90 s is not longer than the period of 120 s"),
        ('"relative"', '"relativ"', "guarantee 'relativ' is not one of relative, absolute, hybrid"),
        ('"relative"', '"none"', "guarantee 'none' is not allowed"),
        ('guarantee = "relative"', "", "class 'premium': desired has a meaning only with a guarantee"),
        ("listen =", "peroid = 1\nlisten =", "unknown key 'peroid'; did you mean period?"),
        ("listen =", 'hysteresis = "1s"\nlisten =', "hysteresis has a meaning only with the hybrid guarantee"),
        ("listen =", 'policy = "rude"\nlisten =', "policy 'rude' is not one of non-preemptive, preemptive"),
        ("listen =", 'borrow = "yes"\nlisten =', "borrow 'yes' is not true or false"),
        ("listen =", 'metrics = "0.0.0.0:9117"\nlisten =', "metrics '0.0.0.0:9117' is not on loopback"),
        ("listen =", 'metrics = "127.0.0.1"\nlisten =', "metrics '127.0.0.1' is not address:port"),
        ("listen =", 'metrics = "::1:80"\nlisten =', "write an address of IPv6 in brackets"),
        ("listen = [8080]", "listen [8080]", "it is not TOML"),
        ('"premium"', '"pre mium"', "class 1: name 'pre mium' is not a name of 1 to 64 letters, digits, - and _"),
        ('"premium"', '"a@b"', "class 1: name 'a@b' is not a name"),
        ('name = "basic"', "", "class 2: name is missing"),
        ('"basic"', '"premium"', "two classes have the name 'premium'"),
        (
            "desired = 1",
            "desired = 0",
            "class 1: desired 0 is not a weight above 0 such as 3, or",
        ),
        ("desired = 1", "desired = -1", "class 1: desired -1 is not a weight above 0"),
        ("desired = 1", "desired = inf", "class 1: desired inf is not a weight above 0"),
        ("desired = 1", "desired = nan", "class 1: desired nan is not a weight above 0"),
        ("desired = 1", "desired = true", "class 1: desired True is not a weight above 0"),
        ("desired = 1", 'desired = "10s"', "desired '10s' is not a number: the relative guarantee takes a weight"),
        ("desired = 1", "", "class 'premium': desired is missing"),
        (
            "desired = 3",
            "desired = 3\nbudget = 129",
            "class 'basic': budget 129 is more than the 128 workers",
        ),
        ("desired = 3", "desired = 3\nbudget = 2\nminimum = 3", "budget 2 is below its minimum of 3"),
        ("desired = 3", "desired = 3\nbudget = 128", "class 'premium': 0 workers are left for it"),
        ("desired = 3", "desired = 3\nminimum = 128", "the minimum budgets add up to 129, more than the 128"),
        ("desired = 3", "desired = 3\nminimum = 0", "class 2: minimum 0 is not a whole number of at least 1"),
        ("desired = 3", "desired = 3\nqueue = 0", "class 2: queue 0 is not a whole number of 1 to 1000000"),
        ("desired = 3", 'desired = 3\nfull = "drop"', "full 'drop' is not one of refuse-newest, refuse-oldest"),
        ("desired = 3", "desired = 3\npercentile = 42", "percentile 42 is not measured: write 95"),
        ("desired = 3", "desired = 3\nweight = 1", "class 2: unknown key 'weight': there are name, match, desired"),
        ("desired = 3", "desired = 3\nmatch = []", "match is empty"),
        ("desired = 3", 'desired = 3\nmatch = [{ path = "/x" }]', "every class has a match"),
        ('match = [{ source = "127.0.1.0/24" }, { path = "/buy" }]', "", "'premium' and 'basic' both have no match"),
        ("127.0.1.0/24", "127.0.1.1/24", "source '127.0.1.1/24' is not a prefix such as 127.0.1.0/24"),
        ("127.0.1.0/24", "127.0.1.0/33", "source '127.0.1.0/33' is not a prefix"),
        ('path = "/buy"', 'path = "buy"', "path 'buy' is not the beginning of a path"),
        ("127.0.1.0/24", "::ffff:127.0.1.0/120", "source '::ffff:127.0.1.0/120' is one of IPv4: write 127.0.1.0/24"),
        ('path = "/buy"', 'local = "[::ffff:127.0.0.1]:8080"', "is an address of IPv4: write 127.0.0.1:8080"),
        ('path = "/buy"', 'path = "/a//b"', "path '/a//b' is not how a resolved path begins"),
        ('path = "/buy"', 'path = "/a%2f%2e./b"', "path '/a%2f%2e./b' is not how a resolved path begins"),
        ('path = "/buy"', 'path = "/100%"', "path '/100%' is not how a resolved path begins"),
        ('path = "/buy"', 'path = "/%00"', "path '/%00' is not how a resolved path begins"),
        ('path = "/buy"', 'path = ""', "class 1: match 2: path '' is not a printable text of 1 to 1024 characters"),
        ('path = "/buy"', "path = 3", "path 3 is not a printable text"),
        ('path = "/buy"', 'path = "\\u0007"', "path '\\x07' is not a printable text"),
        ('{ path = "/buy" }', "7", "class 1: match has 7, which is not a table"),
        ('match = [{ source = "127.0.1.0/24" }, { path = "/buy" }]', "match = 7", "match 7 is not a list of tables"),
        ("listen =", '"a - at `$.b`" = 1\nlisten =', "unknown field"),
        ('path = "/buy"', "", "match has {}"),
        ('path = "/buy"', 'paht = "/buy"', "class 1: match 2: unknown key 'paht'; did you mean path?"),
        ('path = "/buy"', 'local = ":8081"', "local ':8081' is on a port that is not in listen"),
        ('path = "/buy"', 'local = "8080"', "local '8080' is not address:port or :port"),
        ('path = "/buy"', 'host = "a:80"', "host 'a:80' is not a host name without a port"),
        ('path = "/buy"', 'cookie = "a b"', 'cookie \'a b\' is not "name" or "name=value"'),
        ('path = "/buy"', 'header = "X-A:"', 'header \'X-A:\' is not "name" or "name: value"'),
        ('path = "/buy"', 'server-name = "*"', "server-name '*' is not a host name"),
    ],
)
def test_whatever_is_wrong_is_one_line_with_the_value_and_what_is_allowed(old: str, new: str, said: str) -> None:
    assert old in WHOLE
    assert said in refused(WHOLE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ('source = "127.0.0.0/8"', 'source = "127.0.1.0/24"'),
        ('source = "127.0.1.0/24"', 'source = "127.0.1.0/24"'),
        ('source = "127.0.1.0/24"', 'source = "127.0.1.7/32", path = "/x"'),
        ('path = "/buy"', 'path = "/buy/now"'),
        ('local = ":8080"', 'local = "127.0.0.1:8080"'),
        ('cookie = "tier"', 'cookie = "tier=gold"'),
        ('header = "x-tier"', 'header = "X-Tier: gold"'),
        ('host = "Shop.example"', 'host = "shop.example"'),
    ],
)
def test_a_rule_that_an_earlier_class_leaves_nothing_for_is_refused_and_the_other_order_is_not(
    wide: str, narrow: str
) -> None:
    def spec(first: str, second: str) -> str:
        classes = [
            f'[[class]]\nname = "{n}"\ndesired = 1\nmatch = [{{ {r} }}]'
            for n, r in zip("ab", (first, second), strict=True)
        ]
        return HEAD + "\n".join(classes) + BASIC

    said = refused(spec(wide, narrow))
    assert said.startswith("classes 'a' and 'b' overlap: ")
    assert narrow.lower() in said.lower()
    if wide.lower() != narrow.lower():
        assert len(parse(spec(narrow, wide)).classes) == 3


def test_rules_of_different_kinds_do_not_overlap() -> None:
    second = '[[class]]\nname = "second"\ndesired = 2\nmatch = [{ cookie = "tier" }, { source = "127.0.2.0/24" }]\n'
    assert len(parse(HEAD + PREMIUM + second + BASIC).classes) == 3


def test_a_file_that_cannot_be_read_or_is_wrong_is_named(tmp_path: Path) -> None:
    path = tmp_path / "spec.toml"
    with pytest.raises(UsageError, match=f"^SPEC {path}: No such file"):
        load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=f"^SPEC {path}: it is not UTF-8"):
        load(path)
    path.write_text("workers = 3")
    with pytest.raises(UsageError, match=f"^SPEC {path}: listen is missing"):
        load(path)
    path.write_text(WHOLE)
    assert isinstance(load(path), Spec)
    (tmp_path / "link.toml").symlink_to(path)
    assert isinstance(load(tmp_path / "link.toml"), Spec)


def test_what_is_no_file_or_too_long_is_refused_without_waiting_for_its_end(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^SPEC /dev/null is not a regular file$"):
        load(Path("/dev/null"))
    long = tmp_path / "long.toml"
    with long.open("w") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(UsageError, match=f"^SPEC {long} is longer than {MOST_BYTES} bytes$"):
        load(long)


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "[" * 5000 + "]" * 5000])
def test_a_spec_that_is_nested_too_deeply_is_refused_in_one_line(text: str) -> None:
    assert refused(text) == "it is nested too deeply"


@given(workers=st.integers(1, 500), number=st.integers(1, 6))
def test_budgets_that_are_not_given_use_all_workers_evenly(workers: int, number: int) -> None:
    classes = [f'[[class]]\nname = "c{i}"\nmatch = [{{ path = "/{i}/" }}]\n' for i in range(number - 1)]
    text = f"listen = [80]\nworkers = {workers}\n" + "".join(classes) + '[[class]]\nname = "rest"\n'
    if workers < number:
        assert "minimum budgets" in refused(text)
        return
    budgets = [one.budget for one in parse(text).classes]
    assert sum(budgets) == workers
    assert max(budgets) - min(budgets) <= 1
