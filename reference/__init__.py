"""The tutorials of torch.distributed.rpc as code that trains, each beside a twin that checks it."""

from __future__ import annotations

TUTORIALS: dict[str, str] = {}
