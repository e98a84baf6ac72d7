"""A chain of 10,000 `then` is completed on one stack, which ends the process by SIGSEGV (with 8 MiB of stack)."""

import signal
import subprocess
import sys

CHAIN = """
import torch
first = last = torch.futures.Future()
for _ in range(10_000):
    last = last.then(lambda done: done.value() + 1)
first.set_result(0)
print(last.wait())
"""
done = subprocess.run([sys.executable, "-c", CHAIN], capture_output=True, text=True)
print(f"status {done.returncode}, output {done.stdout.strip()!r}, wanted status 0 and '10000'")
sys.exit(10 if done.returncode == -signal.SIGSEGV else done.returncode)
