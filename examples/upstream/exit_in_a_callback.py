"""Any error in a callback of `then` becomes a RuntimeError, even `SystemExit` (upstream issue 51673)."""

import sys

import torch


def leave(future):
    raise SystemExit(3)


first = torch.futures.Future()
then = first.then(leave)
first.set_result(None)
try:
    then.wait()
except BaseException as error:
    print(f"wait() raised {type(error).__name__}, wanted SystemExit")
    sys.exit(0 if isinstance(error, SystemExit) else 10)
