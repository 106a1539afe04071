"""The machine that figures come from, and the load that they are measured beside."""

import contextlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def described() -> dict:
    """What has to stand beside a figure for it to mean something."""
    models = {line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")}
    memory_kb = int(Path("/proc/meminfo").read_text().split("MemTotal:")[1].split()[0])
    return {"cpu": ", ".join(sorted(models)) or platform.machine(), "cores": len(os.sched_getaffinity(0)),
            "memory_gb": round(memory_kb / 1e6, 1), "kernel": platform.release(),
            "load_before": round(os.getloadavg()[0], 2)}


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keeps `count` processes spinning meanwhile. They end with this process, however it ends."""
    # The parent's end of the pipe closes with it; a thread of the loop waits for that.
    loop = ("import os, sys, threading\n"
            "threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()\n"
            "while True: pass\n")
    loops = [subprocess.Popen([sys.executable, "-c", loop], stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield
    finally:
        for process in loops:
            process.kill()
        for process in loops:
            process.communicate()
