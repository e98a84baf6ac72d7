"""Set the signals, threads and memory of the forkserver, before it imports torch. Import this nowhere else."""

from __future__ import annotations

import ctypes
import gc
import os
import signal

from reference.system.interrupts import SIGNALS

# Ctrl-C is for the launching process, even while this process still imports. The launching process has started this one
# with signals blocked.
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

# One thread per operator; torch reads this at its import. Roles share the cores, and the number of threads decides the
# order of sums, and so the bits.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def keep_freed_memory() -> None:
    """Let glibc keep up to 2 GiB of freed memory per process; otherwise each step faults its activations in again.

    Measured in docs/benchmarks.md. With another C library it does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for name, value in ((_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_ARENA_MAX, 1)):
            mallopt(name, value)


keep_freed_memory()

gc.disable()  # until `preload_last`: collections take a sixth of the time of all imports, and find nothing
