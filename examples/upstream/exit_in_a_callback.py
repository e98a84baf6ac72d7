"""A `SystemExit` or `KeyboardInterrupt` in a callback becomes a RuntimeError (upstream issue 51673)."""

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
    sys.exit(not isinstance(error, SystemExit))
