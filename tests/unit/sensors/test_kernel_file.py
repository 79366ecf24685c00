"""Files of the kernel that take more than one read."""

from __future__ import annotations

from pathlib import Path

from trimtab.sensors._cpu import Cpu
from trimtab.sensors._kernel_file import KernelFile


def test_a_file_of_which_the_kernel_gives_a_page_at_a_time_is_read_to_its_end() -> None:
    path = Path("/proc/self/smaps")
    whole = KernelFile(path).read()
    assert len(whole) > 4096
    assert whole.rstrip().rpartition(b"\n")[2].startswith(b"VmFlags:")


def test_all_cpus_of_a_large_machine_count(tmp_path: Path) -> None:
    """Each has been up for a year."""
    ticks = "3155760000 31557600 315576000 3155760000 315576000 0 31557600 0 0 0"
    lines = "".join(f"cpu{cpu} {ticks}\n" for cpu in range(1920))
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text(f"cpu  {ticks}\n{lines}intr 5\n", encoding="ascii")
    assert Cpu({}, frozenset(), tmp_path).cores == 1920
    assert Cpu({}, frozenset({1918, 1919}), tmp_path).used().all_s > 0
