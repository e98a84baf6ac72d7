"""A `set_exception` that is refused, because the future has a result, spoils the result."""

import sys

import torch

future = torch.futures.Future()
future.set_result(1)
try:
    future.set_exception(ValueError("too late"))
except RuntimeError:
    print("set_exception was refused")
try:
    print(f"the result is {future.wait()}")
except Exception as error:
    print(f"wait() raised {error!r}, wanted the result, 1")
    sys.exit(10)
