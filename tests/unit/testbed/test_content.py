"""What the private servers serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.testbed import content
from trimtab.testbed.setups import DYNAMIC, SETUPS, STATIC, switch
from trimtab.workloads._specweb99_files import File
from trimtab.workloads._surge_files import FileSet


def test_the_weights_of_the_webstone_mix_sum_to_one() -> None:
    assert sum(f.weight for f in content.WEBSTONE) == pytest.approx(1.0)


def test_the_mean_size_of_the_webstone_mix_is_that_of_its_sizes_and_weights() -> None:
    # 0.35 x 500 + 0.5 x 5000 + 0.14 x 50000 + 0.009 x 500000 + 0.001 x 5000000
    assert sum(f.weight * f.size_bytes for f in content.WEBSTONE) == pytest.approx(19_175)


@pytest.mark.parametrize("file", content.WEBSTONE, ids=lambda f: f.path)
def test_a_file_has_its_size_and_always_the_same_bytes(file: File) -> None:
    assert len(content.body(file)) == file.size_bytes
    assert content.body(file) == content.body(file)


def test_the_first_bytes_of_two_files_differ() -> None:
    assert content.body(content.WEBSTONE[0])[:64] != content.body(content.WEBSTONE[1])[:64]


def test_both_setups_run_on_the_same_server_so_that_the_workload_can_switch() -> None:
    assert DYNAMIC.spec == STATIC.spec


@pytest.mark.parametrize("name", sorted(SETUPS))
def test_a_sweep_holds_the_shipped_default_and_stays_within_the_server_limit(name: str) -> None:
    what = SETUPS[name]
    assert what.spec.max_request_workers == 150
    assert 150 in what.sweep
    assert max(what.sweep) <= what.spec.most_workers()
    assert list(what.sweep) == sorted(set(what.sweep))


def test_a_switch_ends_one_population_at_the_moment_the_other_begins() -> None:
    first, second = switch(30.0)
    assert (first.class_name, second.class_name) == ("dynamic", "static")
    assert [(s.at_s, s.factor) for s in first.schedule] == [(30.0, 0.0)]
    assert [(s.at_s, s.factor) for s in second.schedule] == [(0.0, 0.0), (30.0, 1.0)]


def test_surges_files_lie_under_their_urls_with_their_sizes_and_are_readable(tmp_path: Path) -> None:
    content.write(tmp_path, content.surge(20))
    chosen = FileSet(20)
    for url, size in zip(chosen.urls, chosen.sizes_bytes, strict=True):
        written = tmp_path / "htdocs" / url.path.lstrip("/")
        assert written.stat().st_size == size
        assert written.stat().st_mode & 0o777 == 0o644
    assert len(list((tmp_path / "htdocs" / "surge").iterdir())) == 20
    assert content.surge(0) == ()


def test_specweb99s_files_lie_under_their_urls_with_their_sizes(tmp_path: Path) -> None:
    files = content.specweb99(2)
    content.write(tmp_path, files)
    assert len(files) == 72
    for file in files:
        written = tmp_path / "htdocs" / file.path.lstrip("/")
        assert written.stat().st_size == file.size_bytes
        assert written.parent.stat().st_mode & 0o777 == 0o755
    assert content.specweb99(0) == ()
