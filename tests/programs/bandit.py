"""An agent learns which arm of a bandit pays, from observers that ask it for every action.

python bandit.py
"""

import tempfile
from threading import Lock

import torch
import torch.distributed.rpc as rpc
import torch.multiprocessing as mp
from torch.distributed.rpc import RRef, remote, rpc_async, rpc_sync
from torch.distributions import Categorical

WORLD_SIZE = 3
EPISODES = 2
STEPS = 5
AGENT_NAME = "agent"
OBSERVER_NAME = "observer{}"


def _call_method(method, rref, *args, **kwargs):
    return method(rref.local_value(), *args, **kwargs)


def _remote_method(method, rref, *args, **kwargs):
    return rpc_sync(rref.owner(), _call_method, args=[method, rref, *args], kwargs=kwargs)


class Observer:
    def __init__(self):
        self.id = rpc.get_worker_info().id

    def run_episode(self, agent_rref, n_steps):
        for _ in range(n_steps):
            action = _remote_method(Agent.select_action, agent_rref, self.id)
            reward = 1.0 if action == 1 else 0.0
            _remote_method(Agent.report_reward, agent_rref, self.id, reward)


class Agent:
    def __init__(self, world_size):
        self.agent_rref = RRef(self)
        self.lock = Lock()
        self.logits = torch.zeros(2, requires_grad=True)
        self.ob_rrefs = []
        self.rewards = {}
        self.saved_log_probs = {}
        for ob_rank in range(1, world_size):
            ob_info = rpc.get_worker_info(OBSERVER_NAME.format(ob_rank))
            self.ob_rrefs.append(remote(ob_info, Observer))
            self.rewards[ob_info.id] = []
            self.saved_log_probs[ob_info.id] = []

    def select_action(self, ob_id):
        with self.lock:
            m = Categorical(logits=self.logits)
            action = m.sample()
            self.saved_log_probs[ob_id].append(m.log_prob(action))
            return action.item()

    def report_reward(self, ob_id, reward):
        self.rewards[ob_id].append(reward)

    def run_episode(self, n_steps=STEPS):
        futs = []
        for ob_rref in self.ob_rrefs:
            args = (Observer.run_episode, ob_rref, self.agent_rref, n_steps)
            futs.append(rpc_async(ob_rref.owner(), _call_method, args=args))
        for fut in futs:
            fut.wait()

    def finish_episode(self):
        log_probs = torch.stack([p for probs in self.saved_log_probs.values() for p in probs])
        rewards = torch.tensor([r for rewards in self.rewards.values() for r in rewards])
        loss = -(log_probs * rewards).sum()
        (grad,) = torch.autograd.grad(loss, [self.logits])
        with torch.no_grad():
            self.logits -= 0.1 * grad
        for ob_id in self.rewards:
            self.rewards[ob_id].clear()
            self.saved_log_probs[ob_id].clear()
        return rewards.mean().item()


def run_worker(rank, world_size, folder):
    options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{folder}/store", rpc_timeout=3)
    if rank == 0:
        rpc.init_rpc(AGENT_NAME, rank=rank, world_size=world_size, rpc_backend_options=options)
        torch.manual_seed(543)
        agent = Agent(world_size)
        for episode in range(EPISODES):
            agent.run_episode()
            print(f"Episode {episode}\tmean reward {agent.finish_episode():.2f}", flush=True)
    else:
        rpc.init_rpc(OBSERVER_NAME.format(rank), rank=rank, world_size=world_size, rpc_backend_options=options)
        # The observer only waits for calls of the agent.
    rpc.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(run_worker, args=(WORLD_SIZE, folder), nprocs=WORLD_SIZE, start_method="fork")
