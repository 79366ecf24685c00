"""What an operator edits in a Squid's configuration in mid-run comes into force by his own reload, not by ours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers._private_squid import DEBIAN, Bed, private
from trimtab.errors import ApplyLater

pytestmark = pytest.mark.server


@pytest.fixture
def bed() -> Iterator[Bed]:
    with private() as bed:
        yield bed


def test_what_is_edited_in_mid_run_waits_for_the_operators_reload_and_a_change_waits_with_it(bed: Bed) -> None:
    squid = bed.attach()
    squid.apply({"cache_mem": 16})
    bed.write("x-mine.conf", "# a comment is no setting\n")
    squid.apply({"cache_mem": 17})
    bed.write("x-mine.conf", "client_lifetime 5 minutes\n")
    for _ in range(2):
        with pytest.raises(ApplyLater, match=r"x-mine\.conf was edited after .* reload Squid yourself \(squid -k"):
            squid.apply({"cache_mem": 18})
    assert squid.configuration()["cache_mem"] == 17
    bed.reload()
    squid.apply({"cache_mem": 18})
    bed.write("x-mine.conf", None)
    with pytest.raises(ApplyLater, match=r"x-mine\.conf was edited"):
        squid.apply({"cache_mem": 19})
    assert squid.apply({"cache_mem": 17}).configuration["cache_mem"] == 17, "a way back waits for nobody"
    squid.restore()
    assert (squid.configuration(), bed.snippet.exists()) == (DEBIAN, False)


def test_a_list_of_addresses_or_names_that_is_edited_in_mid_run_waits_too(bed: Bed) -> None:
    """A reload reads it as it is then, such as half of a blocklist that is just being written."""
    names = bed.testbed.directory / "names.txt"
    names.write_text(".one.example\n.two.example\n")
    bed.write("x-mine.conf", f'acl late dstdomain "{names}"\n')
    bed.reload()
    squid = bed.attach()
    squid.apply({"cache_mem": 16})
    names.write_text(".one.example\n")
    with pytest.raises(ApplyLater, match=r"names\.txt was edited after .* reload Squid yourself"):
        squid.apply({"cache_mem": 17})
    bed.reload()
    squid.apply({"cache_mem": 17})
    squid.restore()
