"""A private server with a memory limit beyond which it swaps, and whose workers the kernel ends before itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from trimtab.errors import TrimtabError
from trimtab.testbed import swap
from trimtab.testbed._private import PrivateServer
from trimtab.testbed.cgroup import Confinement, Limits
from trimtab.testbed.victims import Victims

Spec = TypeVar("Spec", bound=Limits)


class SwappedServer(PrivateServer[Spec]):
    """A private server whose specification has its limits."""

    _swap_device = _swap_missing = ""
    _victims: Victims | None = None

    def limits(self) -> Limits:
        """The specification's, once there is the swap that it wants."""
        spec, self._swap_device, self._swap_missing = self.spec, "", ""
        record = self._held()
        if spec.swap and spec.memory_limit_bytes is not None:
            self.hold(replace(record, swap=True))
            try:
                self._swap_device = swap.acquire(self._registry)
            except TrimtabError as error:
                self._swap_missing = str(error)
                self.hold(replace(record, swap=False))
        return Limits(
            memory_limit_bytes=spec.memory_limit_bytes,
            swap=bool(self._swap_device),
            cores=spec.cores,
            cpus=spec.cpus,
            cpu_weight=spec.cpu_weight,
        )

    def confined(self, confinement: Confinement) -> None:
        """Adds the swap to the description of the limits."""
        if self._swap_missing:
            confinement.missing.append(self._swap_missing)
        elif self._swap_device:
            confinement.applied.append(f"swap on {self._swap_device}")

    def launched(self, ports: Sequence[int]) -> None:
        """Lets the kernel end its workers before others when memory runs out."""
        self.ending()
        if "memory" in self.cgroups:
            self._victims = Victims(self.pid)

    def ending(self) -> None:
        """Looks after the workers no more."""
        if self._victims is not None:
            self._victims.close()
            self._victims = None

    def released(self) -> None:
        """Lets go of swap when nobody else has it."""
        swap.release(self._registry)
