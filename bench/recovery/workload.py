"""The workload W that the figures of recovery are measured on, and the commands that start it."""

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Workload:
    """`pace run` of the emulated trainer. Its compute is a timed wait; gradients and updates are real numbers."""

    pace: Path
    hosts: int = 4
    ranks_per_host: int = 2
    spare_hosts: int = 2
    micro_batches: int = 64
    micro_batch_ms: float = 6.25
    gradient_mb: float = 1
    state_mb: float = 64
    seed: int = 1
    print_every: int = 1_000_000
    launcher_flags: tuple[str, ...] = ()  # more of `pace run`

    @property
    def trainer(self) -> Path:
        return self.pace.parent / "emulated"

    @property
    def ranks(self) -> int:
        """Those that have work at the start; slots of spare hosts are numbered after them."""
        return self.hosts * self.ranks_per_host

    @property
    def step_s(self) -> float:
        """What a step takes when nothing but the emulated compute costs time."""
        return self.micro_batches / self.ranks * self.micro_batch_ms / 1e3

    def command(self, report: Path, steps: int, faults: Path | None = None, extra: tuple[str, ...] = (),
                flags: tuple[str, ...] = ()) -> list[str]:
        """`extra`: flags of the trainer that are not given here. `flags`: of `pace run`."""
        return [str(self.pace), "run", "--local", str(self.hosts), "--nproc-per-node", str(self.ranks_per_host),
                "--spares", str(self.spare_hosts), "--micro-batches", str(self.micro_batches),
                "--seed", str(self.seed), "--report", str(report),
                *(["--faults", str(faults)] if faults else []), *self.launcher_flags, *flags,
                "--", str(self.trainer), "--steps", str(steps), "--micro-batch-ms", str(self.micro_batch_ms),
                "--gradient-mb", str(self.gradient_mb), "--state-mb", str(self.state_mb), "--seed", str(self.seed),
                "--print-every", str(self.print_every), *extra]

    def undisturbed(self) -> "Workload":
        """The same numbers as fast as they come: without spares, and without the wait that stands for compute."""
        return dataclasses.replace(self, spare_hosts=0, micro_batch_ms=0)

    def described(self) -> dict:
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "pace"}
