"""The learning curve of an agent: rewards in a trace, and whether they show that it learns."""

from __future__ import annotations

import gymnasium
import torch

from reference.trace.trace import Recorder, Trace, TraceError

# The part of the environment's published threshold at which an agent has learnt. The whole threshold comes after 190,
# 241 or 308 episodes of the same case: processors round differently, and after some episodes actions differ.
LEARNT = 0.5


def record_reward(recorder: Recorder, episode: int, reward: float, running: float) -> None:
    """Record an episode's reward and its running average."""
    rewards = {"episode": reward, "running": running}
    recorder.put(f"{episode:04d}/reward", {n: torch.tensor(each, dtype=torch.float64) for n, each in rewards.items()})


def running_rewards(trace: Trace) -> list[float]:
    """Read the running reward after each episode. Raises TraceError: it is not in the trace."""
    curve = [trace.tensors.get(f"{episode:04d}/reward/running") for episode in range(trace.case.steps)]
    found = [float(reward) for reward in curve if reward is not None and reward.numel() == 1]
    if len(found) < len(curve):
        raise TraceError(f"a running reward in {len(found)} of {len(curve)} episodes, wanted one in each")
    return found


def goal(trace: Trace) -> str:
    """Say after how many episodes the running reward has reached half of the environment's published threshold.

    Raises:
        TraceError: it has never reached it, or the environment has no threshold.
    """
    threshold = gymnasium.spec(trace.case.env).reward_threshold  # type: ignore[attr-defined]
    if threshold is None:
        raise TraceError(f"{trace.case.env} has no threshold of the reward")  # type: ignore[attr-defined]
    curve, wanted = running_rewards(trace), LEARNT * threshold
    for episode, reward in enumerate(curve, start=1):
        if reward >= wanted:
            return f"running reward {reward:.1f} after {episode} episodes"
    raise TraceError(f"running reward at most {max(curve):.1f} in {len(curve)} episodes, wanted {wanted}")
