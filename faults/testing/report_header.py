"""Name torch, the transports and the available places for faults, for the header of pytest's report.

This takes some 50 ms besides the import of torch.
"""

from __future__ import annotations

import torch

from faults.inject.call import calls
from faults.inject.message import messages
from faults.inject.network import network
from reference.world.rpc_agent import LOCAL_OPTIONS


def lines() -> list[str]:
    """Return lines on torch, on how roles communicate, and on the places for faults that are available here."""
    talk = ", ".join(f"{name.strip('_')} {' '.join(values)}" for name, values in LOCAL_OPTIONS.items())
    lacking = {"calls": calls.missing(), "faulty agent": messages.missing(), "namespaces": network.missing()}
    places = "; ".join(f"{place}: {reason or 'available'}" for place, reason in lacking.items())
    return [f"torch {torch.__version__}, {torch.get_num_threads()} threads in this process; {talk}", places]
