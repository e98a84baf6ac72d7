"""``rref_dataflow`` in NumPy: worker3 adds what worker1 and worker2 made, worker4 scales the sum."""

from __future__ import annotations

from typing import Any

from tensors import Arrays, main


def train(case: dict[str, Any], given: Arrays) -> Arrays:
    found: Arrays = {}
    for step in range(case["steps"]):
        total = given[f"data/worker1/{step:04d}/a"] + given[f"data/worker2/{step:04d}/b"]
        found[f"{step:04d}/sum"] = total * 2 + 1
    return found


if __name__ == "__main__":
    main(train)
