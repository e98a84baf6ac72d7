"""Bugs in what tutorials train with: each piece has tests of its own, from its formula."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_GAME, _OF_GAME = "reference/training/batch_episode.py", "tests/reference/test_game.py"
_SAVED, _OF_SAVED = "reference/training/batch_episode.py", "tests/reference/test_saved_actions.py"
_CURVE, _OF_CURVE = "reference/training/cartpole.py", "tests/reference/test_learning_curve.py"
_HALVES, _OF_HALVES = "reference/training/models.py", "tests/reference/test_resnet_shards.py"
_LINEAR, _OF_LINEAR = "reference/training/data.py", "tests/reference/test_linear_task.py"
_GRADIENTS, _OF_GRADIENTS = "reference/training/gradients.py", "tests/reference/test_gradients.py"

MUTANTS = (
    Mutant(
        "last-step-starts-nothing",
        _GAME,
        "        if terminated or truncated or last:",
        "        if terminated or truncated:",
        (f"{_OF_GAME}::test_the_environment_starts_after_each_end_and_after_the_last_step",),
        "the environment's draws are one start behind those of the observer",
    ),
    Mutant(
        "starts-of-all-episodes",
        _GAME,
        "        self.starts = []\n        self._start()",
        "        self._start()",
        (f"{_OF_GAME}::test_an_episode_has_its_own_starts_only",),
        "an episode is rewarded for the ones before it",
    ),
    Mutant(
        "saved-under-the-first-observer",
        _SAVED,
        "        self._log_probs[observer or 0].append(log_probs)",
        "        self._log_probs[0].append(log_probs)",
        (f"{_OF_SAVED}::test_steps_come_out_by_step_and_observer_however_they_were_added[False]",),
        "what observers do is saved in the order of their calls",
    ),
    Mutant(
        "draws-of-another-observers-step",
        _SAVED,
        "        step = len(self._actions[observer or 0])",
        "        step = len(self._actions[0])",
        (f"{_OF_SAVED}::test_draws_are_those_of_the_observers_own_next_step",),
        "how far another observer has come decides an observer's draws",
    ),
    Mutant(
        "actions-not-recorded",
        _SAVED,
        '        steps = {"actions": self.actions}\n',
        '        steps = {"actions": self.actions} if recorder.every else {}\n',
        (f"{_OF_SAVED}::test_the_trace_has_the_actions_even_if_it_records_the_ends_only",),
        "two runs that act otherwise are taken for two roundings of one result",
    ),
    Mutant(
        "curve-in-float32",
        _CURVE,
        "torch.tensor(each, dtype=torch.float64)",
        "torch.tensor(each)",
        (f"{_OF_CURVE}::test_rewards_are_recorded_in_float64",),
        "a reward in the trace is not the one that the agent has",
    ),
    Mutant(
        "a-curve-with-holes",
        _CURVE,
        "    if len(found) < len(curve):",
        "    if not found:",
        (f"{_OF_CURVE}::test_a_trace_without_every_running_reward_is_refused",),
        "an agent is said to reach its goal in fewer episodes than it took",
    ),
    Mutant(
        "almost-the-goal",
        _CURVE,
        "        if reward >= least:",
        "        if reward > least - 1:",
        (f"{_OF_CURVE}::test_a_reward_below_that_is_no_goal",),
        "an agent that has not reached its goal is said to have",
    ),
    Mutant(
        "a-stride-forgotten",
        _HALVES,
        "            self._make_layer(512, 3, stride=2),",
        "            self._make_layer(512, 3),",
        (f"{_OF_HALVES}::test_both_halves_compute_what_torchvisions_resnet50_computes",),
        "the second half is another model than ResNet50, with the same parameters",
    ),
    Mutant(
        "initialised-by-fan-in",
        _HALVES,
        'mode="fan_out"',
        'mode="fan_in"',
        (f"{_OF_HALVES}::test_convolutions_have_the_deviation_of_kaimings_rule",),
        "a convolution's numbers are drawn for its inputs",
    ),
    Mutant(
        "mlp-of-one-width",
        _HALVES,
        "    inputs = inputs if half == 1 else width",
        "    inputs = inputs if half == 1 else outputs",
        (f"{_OF_HALVES}::test_the_halves_of_an_mlp_fit_together",),
        "the second half does not take what the first one gives",
    ),
    Mutant(
        "targets-of-noise",
        _LINEAR,
        "            target = data.to(dtype) @ teacher.to(dtype)",
        "            target = torch.randn(batch_size, outputs, generator=draws)",
        (f"{_OF_LINEAR}::test_the_target_is_one_linear_function_of_all_data",),
        "there is nothing to learn, as published",
    ),
    Mutant(
        "exact-data-in-float32",
        _LINEAR,
        "        yield data.to(dtype), target.to(dtype)",
        "        yield data, target",
        (f"{_OF_LINEAR}::test_exact_batches_are_small_whole_numbers",),
        "batches do not have the case's dtype",
    ),
    Mutant(
        "some-trainers-replayed",
        "reference/training/worker_order.py",
        "sorted(order) != list(range(trainers))",
        "not set(order) <= set(range(trainers))",
        ("tests/reference/test_arrivals.py::test_an_order_that_is_not_each_trainer_once_is_refused[found1]",),
        "a twin adds one trainer's gradients twice, as a damaged trace says",
    ),
    Mutant(
        "all-on-the-first-gpu",
        "reference/training/placement.py",
        "rank % torch.cuda.device_count()",
        "0",
        ("tests/reference/test_devices.py::test_roles_share_two_gpus_in_turn",),
        "further GPUs are idle",
    ),
    Mutant(
        "losses-backward-together",
        _GRADIENTS,
        "    for loss in losses:\n        loss.backward()\n    return torch.stack([*losses]).sum().detach()",
        "    total = torch.stack([*losses]).sum()\n    total.backward()\n    return total.detach()",
        (f"{_OF_GRADIENTS}::test_gradients_are_added_in_the_order_of_the_losses",),
        "the order in which observers call becomes the order of sums",
    ),
)
