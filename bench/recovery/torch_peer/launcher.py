#!/usr/bin/python3
"""torchrun of Debian's python3-torch, which fails on Python 3.11 unless helped.

There a flag with the value 0 is no longer found by going through its class, so `Std.from_str("0")` is None instead of
`Std.NONE`, and `to_map` does not know what to do with it. Nothing else is changed.
"""

from torch.distributed import run
from torch.distributed.elastic import multiprocessing
from torch.distributed.elastic.multiprocessing import api

original = api.to_map
multiprocessing.to_map = api.to_map = lambda value, size: original(api.Std.NONE if value is None else value, size)
run.main()
