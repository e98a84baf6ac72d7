"""Two tills pay at a shop, which prints the payments in the order in which it got them.

rivals.py FIRST LATER: the till FIRST begins. LATER: `after`, the other one pays when FIRST has done so; `beside`, when
FIRST has sent its payments, of which the shop may then get the second one first.
"""

import sys
import tempfile
import threading

import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

ROLES = ("shop", "till1", "till2")
paid = []
may_pay = threading.Event()


def pay(amount):
    paid.append(amount)


def go():
    may_pay.set()


def other(till):
    return {"till1": "till2", "till2": "till1"}[till]


def pay_in_turn(till):
    for amount in (1, 10):
        rpc.rpc_sync("shop", pay, args=(f"{till}:{amount}",))


def pay_beside(till):
    payments = [rpc.rpc_async("shop", pay, args=(f"{till}:{amount}",)) for amount in (1, 10)]
    rpc.rpc_sync(other(till), go)
    for payment in payments:
        payment.wait()


def pay_first(till, later):
    if later == "beside":
        pay_beside(till)
    else:
        pay_in_turn(till)
        rpc.rpc_sync(other(till), go)


def pay_second(till):
    if not may_pay.wait(60):
        raise TimeoutError(f"{other(till)} has not paid")
    pay_in_turn(till)


def run(rank, folder, first, later):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/meeting", rpc_timeout=20)
    role = ROLES[rank]
    rpc.init_rpc(role, rank=rank, world_size=len(ROLES), rpc_backend_options=options)
    if role == first:
        pay_first(role, later)
    elif role != "shop":
        pay_second(role)
    rpc.shutdown()
    if role == "shop":
        print("paid", *paid, flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(run, args=(folder, *sys.argv[1:]), nprocs=len(ROLES), start_method="fork")
