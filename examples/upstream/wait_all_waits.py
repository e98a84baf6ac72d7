"""`wait_all` waits for all if an error was put by `set_exception`, where its manual says: it exits early."""

import os
import sys
import threading

import torch


def give_up():
    print("one future has an error, and wait_all has not ended after 5 s, wanted the error at once", flush=True)
    os._exit(10)


never, failed = torch.futures.Future(), torch.futures.Future()
failed.set_exception(ValueError("failed"))
timer = threading.Timer(5, give_up)
timer.start()
try:
    torch.futures.wait_all([never, failed])
except ValueError as error:
    print(f"wait_all raised {error!r} at once")
    timer.cancel()
    sys.exit(0)
