"""``sharded_parameter_server`` in NumPy: shards do not show in the numbers, for SGD updates each tensor by itself."""

from __future__ import annotations

from batch_parameter_server import train
from tensors import main

if __name__ == "__main__":
    main(train)
