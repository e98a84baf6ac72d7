"""`collect_all` is complete at the first error of a callback, where its manual says: when all are complete."""

import sys

import torch


def fail(future):
    raise ValueError("failed")


never, failing = torch.futures.Future(), torch.futures.Future()
both = torch.futures.collect_all([never, failing.then(fail)])
failing.set_result(None)
print(f"one of two futures has no result; done() of all is {both.done()}, wanted False")
sys.exit(10 if both.done() else 0)
