"""Takes orders, checks what it gets, logs as JSON, and says by its exit status what went wrong.

python orders.py
"""

import json
import logging
import sys
import tempfile

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp

ORDERS = ([1.0, 0.0, 2.0], [0.0, 3.0, 1.0], [2.0, 2.0, 2.0])
log = logging.getLogger("orders")


class OrderError(Exception):
    """An order cannot be taken."""

    status = 3


class StockUnreachable(OrderError):
    status = 4


class BadPrice(OrderError):
    status = 5


class AsJson(logging.Formatter):
    def format(self, record):
        fields = {"level": record.levelname, "role": mp.current_process().name, "message": record.getMessage()}
        if record.exc_info:
            fields["error"] = repr(record.exc_info[1])
        return json.dumps({**fields, **getattr(record, "fields", {})})


class Stock:
    def __init__(self):
        self.left = torch.full((3,), 10.0)
        self.prices = torch.tensor([1.0, 2.5, 4.0])

    def reserve(self, order):
        self.left -= order
        return self.prices * order

    def remaining(self):
        return self.left


def start(rank, folder):
    handler = logging.StreamHandler()
    handler.setFormatter(AsJson())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=2)
    rpc.init_rpc(["shop", "stock"][rank], rank=rank, world_size=2, rpc_backend_options=options)


def keep_stock(folder, ready):
    ready.set()
    start(1, folder)
    rpc.shutdown()


def take(stock, number, order):
    try:
        prices = stock.rpc_sync().reserve(torch.tensor(order))
    except RuntimeError as error:
        raise StockUnreachable(f"order {number} is not reserved") from error
    if not bool(torch.isfinite(prices).all()):
        raise BadPrice(f"order {number} has the prices {prices.tolist()}")
    log.info("taken", extra={"fields": {"order": number}, "step": number})
    return prices.sum().item()


def sell(folder):
    start(0, folder)
    stock = rpc.remote("stock", Stock)
    total = sum(take(stock, number, order) for number, order in enumerate(ORDERS, 1))
    print(f"sold for {total:g}, left {stock.rpc_sync().remaining().sum():g}", flush=True)
    del stock
    rpc.shutdown()


def main():
    with tempfile.TemporaryDirectory() as folder:
        context = mp.get_context("spawn")
        ready = context.Event()  # it imports torch for longer than the shop waits for it in `init_rpc`
        stock = context.Process(target=keep_stock, args=(folder, ready), name="stock", daemon=True)
        stock.start()
        ready.wait()
        try:
            sell(folder)
        except OrderError as error:
            log.exception("no order can be taken any more")
            return error.status
        stock.join()
        return stock.exitcode


if __name__ == "__main__":
    sys.exit(main())
