"""Import in the forkserver what every role needs, and freeze all that it has imported. Import this nowhere else."""

from __future__ import annotations

import ctypes
import gc
import linecache
import threading
from multiprocessing import forkserver, process, spawn
from pathlib import Path

import numpy.random  # noqa: F401 (numpy itself imports it late: 7 ms a role)
import torch.distributed.rpc

from reference.world import role

# <linux/mman.h>: MADV_COLLAPSE, since Linux 6.1; and the size of a large page.
_COLLAPSE, _LARGE = 25, 2 << 20


def use_large_pages() -> None:
    """Move this process's memory to large pages, if the kernel can: then a fork takes 1 ms instead of 3, and a child's
    end 2 ms instead of 6. A child that writes still copies only 4 KiB.
    """
    maps = Path("/proc/self/maps")
    for line in maps.read_text(errors="replace").splitlines() if maps.exists() else []:
        place, rights, _, _, inode, *_ = line.split()
        first, end = (int(each, 16) for each in place.split("-"))
        first += -first % _LARGE
        if rights == "rw-p" and inode == "0" and end - first >= _LARGE:  # of no file
            ctypes.CDLL(None).madvise(
                ctypes.c_void_p(first), ctypes.c_size_t((end - first) // _LARGE * _LARGE), _COLLAPSE
            )


# The sources of the frames in which a role waits. It reports them when it hears of a death, and reading takes 1 ms.
for module in (forkserver, process, spawn, threading, torch.distributed.rpc.api, role):
    linecache.getlines(module.__file__ or "")
role.watch_startup()
gc.freeze()  # children share the memory of these objects; a collection in a child would copy its pages
use_large_pages()
gc.enable()  # `preload_first` has disabled it
