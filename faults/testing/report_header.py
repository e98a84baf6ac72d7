"""Say in the head of pytest's report what a run of tests stands on. Takes some 50 ms besides the import of torch."""

from __future__ import annotations

import torch

from faults.inject.call import calls
from faults.inject.message import messages
from faults.inject.network import network
from reference.world.rpc_agent import LOCAL_OPTIONS


def lines() -> list[str]:
    """torch, how worlds talk, and which places for faults there are here."""
    talk = ", ".join(f"{name.strip('_')} {' '.join(values)}" for name, values in LOCAL_OPTIONS.items())
    lacking = {"calls": calls.missing(), "faulty agent": messages.missing(), "namespaces": network.missing()}
    places = "; ".join(f"{place}: {reason or 'available'}" for place, reason in lacking.items())
    return [f"torch {torch.__version__}, {torch.get_num_threads()} threads in this process; {talk}", places]
