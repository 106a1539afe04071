#!/usr/bin/python3
"""What the emulated trainer does, as a user of DDP would write it: a timed wait for the compute, gradients of the same
size averaged by gloo, a state of the same size in a checkpoint every few steps, and a start from the newest one.

Where there is a choice, it is the one that comes back soonest: nothing but parameters is sent when DDP starts, every
rank reads the checkpoint by itself, and no time is spent on data or on evaluation.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

BYTES_PER_ELEMENT = 4


class Emulated(torch.nn.Module):
    """A gradient of so many elements for next to no compute."""

    def __init__(self, elements: int):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(elements))

    def forward(self, factors: torch.Tensor) -> torch.Tensor:
        return torch.dot(self.weight, factors)


def elements_of(megabytes: float) -> int:
    return max(1, int(megabytes * 1e6 / BYTES_PER_ELEMENT))


def save(path: Path, content: dict) -> None:
    unfinished = path.with_suffix(".unfinished")
    torch.save(content, unfinished)
    os.replace(unfinished, path)


def train(options: argparse.Namespace) -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    start = os.environ["TORCHELASTIC_RESTART_COUNT"]
    model = Emulated(elements_of(options.gradient_mb))
    state = torch.zeros(elements_of(options.state_mb))  # as an optimizer has it: on every rank, and not sent
    step = 0
    if options.checkpoint.exists():
        checkpoint = torch.load(options.checkpoint)
        model.load_state_dict(checkpoint["model"])
        state, step = checkpoint["state"], checkpoint["step"]
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=1e-3)
    factors = torch.ones_like(model.weight)
    while step < options.steps:
        time.sleep(options.step_ms / 1e3)  # the compute
        optimizer.zero_grad()
        ddp(factors).backward()
        optimizer.step()
        step += 1
        if rank == 0:
            print(f"step {step} of start {start}", flush=True)
            if step % options.checkpoint_every == 0:
                save(options.checkpoint, {"model": model.state_dict(), "state": state, "step": step})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--step-ms", type=float, required=True)
    parser.add_argument("--gradient-mb", type=float, required=True)
    parser.add_argument("--state-mb", type=float, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--checkpoint-every", type=int, required=True)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
