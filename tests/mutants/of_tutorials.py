"""Bugs in the tutorials: what a run computes, in which order, and how it ends."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_BATCH, _UPDATE, _SHARD = "reference/batch_parameter_server.py", "reference/update.py", "reference/shard.py"
_QUICK = "tests/test_quick.py::test_it_runs_equal"
_OF_BATCH = "tests/test_batch_parameter_server.py"
_PLAIN = f"{_OF_BATCH}::test_exact_case_is_plain_training_on_the_mean_loss"

MUTANTS = (
    Mutant(
        "parameters-in-the-processs-order",
        "reference/streams.py",
        "        torch.default_generator.manual_seed(seed_for(seed, name))\n",
        "        torch.default_generator.manual_seed(seed)\n",
        ("tests/test_streams.py::test_build_depends_on_seed_and_name_only",),
        "two modules of one seed have the same parameters",
    ),
    Mutant(
        "largest-integer-left-out",
        "reference/streams.py",
        "torch.randint(-integers, integers + 1, parameter.shape)",
        "torch.randint(-integers, integers, parameter.shape)",
        ("tests/test_streams.py::test_integers_replace_the_parameters_in_their_order",),
        "an exact case begins with other numbers than are said",
    ),
    Mutant(
        "labels-of-one-class",
        "reference/training/images.py",
        "torch.randint(num_classes, (shape[0], 1), generator=draws)",
        "torch.randint(num_classes, (1, 1), generator=draws).expand(shape[0], 1)",
        ("tests/test_images.py::test_every_step_has_other_images_and_the_same_labels",),
        "all images of a batch have one label",
    ),
    Mutant(
        "images-drawn-in-the-cases-dtype",
        "reference/training/images.py",
        "torch.randn(shape, generator=draws)",
        "torch.randn(shape, generator=draws, dtype=case.torch_dtype)",
        ("tests/test_images.py::test_images_depend_on_seed_and_name_only",),
        "a float64 twin trains on other images",
    ),
    Mutant(
        "lost-gradient",
        _UPDATE,
        "                parameter.grad += grad",
        "                parameter.grad = grad",
        (_PLAIN,),
        "of all trainers' gradients only the last one counts",
    ),
    Mutant(
        "missing-division",
        _UPDATE,
        "                parameter.grad /= count",
        "                parameter.grad /= 1",
        (_PLAIN,),
        "the sum of the trainers' gradients instead of their mean",
    ),
    Mutant(
        "stale-model",
        _BATCH,
        "            m = rpc.rpc_sync(\n                self.ps_rref.owner(),",
        "            rpc.rpc_sync(\n                self.ps_rref.owner(),",
        ("tests/test_promises.py::test_healthy[batch_parameter_server]",),
        "a trainer goes on with the model that it had",
    ),
    Mutant(
        "reply-before-update",
        _BATCH,
        "        self.optimizer.step()\n"
        "        record(self.recorder, self.round, self.model, [self.trainers.index(t) for t in self.arrivals])\n"
        "        self.round += 1\n"
        "        # A snapshot: the transport reads these tensors after the lock is gone (S2.5).\n"
        "        self.handed_out = True\n"
        "        return hand_out(self.model)",
        "        old = copy.deepcopy(hand_out(self.model))\n"
        "        self.optimizer.step()\n"
        "        record(self.recorder, self.round, self.model, [self.trainers.index(t) for t in self.arrivals])\n"
        "        self.round += 1\n"
        "        return old",
        (f"{_QUICK}[batch_parameter_server]",),
        "the reply is the model of before the update",
    ),
    Mutant(
        "torn-model",
        _BATCH,
        "        with self.lock:\n            return copy.deepcopy(self.model)",
        "        with self.lock:\n            return self.model",
        (f"{_OF_BATCH}::test_the_first_model_is_a_copy",),
        "the reply is the live model, which the next update changes while it is sent",
    ),
    Mutant(
        "shared-tensors",
        _BATCH,
        "            keep_apart(self.model)\n",
        "            pass\n",
        (f"{_OF_BATCH}::test_a_reply_is_a_snapshot_even_if_the_next_report_is_very_early",),
        "the next round adds into tensors that are still being sent",
    ),
    Mutant(
        "replies-under-the-lock",
        _BATCH,
        "                self._next_round()\n"
        "        if result is not None:\n"
        "            # Outside the lock: this serialises every waiting caller's reply in turn (S2.3, S2.4).\n"
        "            fut.set_result(result)\n",
        "                self._next_round()\n                fut.set_result(result)\n        if result is not None:\n",
        (f"{_OF_BATCH}::test_replies_are_made_outside_the_lock",),
        "every reply is pickled while the lock is held",
    ),
    Mutant(
        "momentum-lost",
        _BATCH,
        "momentum=case.momentum, fused=True",
        "momentum=0.0, fused=True",
        (f"{_OF_BATCH}::test_natural_case_is_plain_training_up_to_rounding", _PLAIN),
        "server and twin alike forget the momentum",
    ),
    Mutant(
        "buffers-left-out",
        _UPDATE,
        "            buffer.copy_(total)",
        "            pass",
        (f"{_OF_BATCH}::test_the_servers_batch_norm_has_statistics",),
        "batch norm's statistics stay those of the beginning",
    ),
    Mutant(
        "arrivals-not-recorded",
        _BATCH,
        '{"arrivals": torch.tensor(arrivals)}',
        '{"arrivals": torch.tensor(sorted(arrivals))}',
        (f"{_OF_BATCH}::TestOrders::test_arrival_gives_the_bits_of_its_replay",),
        "the trace says rank order whoever came first",
    ),
    Mutant(
        "added-as-they-come",
        _BATCH,
        'return self.trainers if self.case.accumulation == "rank" else self.arrivals',
        "return self.arrivals",
        (f"{_OF_BATCH}::TestOrders::test_rank_gives_the_bits_of_a_twin_that_knows_no_order",),
        "gradients are added as they come where rank order was promised",
    ),
    Mutant(
        "unexpected-error",
        _BATCH,
        "                raise event",
        '                raise AssertionError("a round has failed")',
        ("tests/test_promises.py::test_a_loss_ends_everybody_soon[raise]",),
        "a failure that does not say what it comes from",
    ),
    Mutant(
        "failure-not-told",
        _BATCH,
        '        ps.fail(f"{name} failed: {cause_of(error)}")',
        "        del error",
        (f"{_OF_BATCH}::test_a_killed_trainer_is_named_at_once",),
        "a trainer's death is known, and nobody is told whose it was",
    ),
    Mutant(
        "doubled-update",
        "reference/parameter_server.py",
        "            if not self._note(PUSH, worker, number):\n                return True\n",
        "            self._note(PUSH, worker, number)\n",
        ("tests/test_promises.py::test_what_loses_nothing_changes_nothing[twice]",),
        "gradients that arrive twice are applied twice",
    ),
    Mutant(
        "order-not-recorded",
        "reference/parameter_server.py",
        "        self.order.append((kind, rank))",
        "        self.order.append((kind, 0))",
        ("tests/test_parameter_server.py::test_several_workers_equal_the_replay_of_their_order[0]",),
        "the trace does not say which worker it was",
    ),
    Mutant(
        "live-parameters",
        "reference/parameter_server.py",
        "RRef(parameter.detach().clone())",
        "RRef(parameter.detach())",
        ("tests/test_parameter_server.py::test_pulled_parameters_are_copies_of_one_moment",),
        "a worker fetches parameters of different moments",
    ),
    Mutant(
        "weights-never-pulled",
        "reference/parameter_server.py",
        "                parameter.copy_(rref.to_here(timeout=limit))",
        "                rref.to_here(timeout=limit)",
        ("tests/test_promises.py::test_healthy[parameter_server]",),
        "a worker trains the weights that it began with, as published (S1.14)",
    ),
    Mutant(
        "everybody-is-silent",
        "reference/parameter_server.py",
        "for name, n in busy.items() if self.heard[name] <= since",
        "for name, n in busy.items() if since",
        ("tests/test_parameter_server.py::test_only_the_silent_are_named",),
        "who is missing is named together with who is not",
    ),
    Mutant(
        "waits-for-ever",
        "reference/parameter_server.py",
        "                self.changed.wait(due - time.monotonic())",
        "                self.changed.wait()",
        ("tests/test_promises.py::test_who_is_silent_ends_nobodys_patience_but_the_cases",),
        "a server that waits for a dead worker without a limit",
    ),
    Mutant(
        "leaked-rref",
        "reference/parameter_server.py",
        "        finally:\n            global_ps_rref.set(None)",
        "        finally:\n            pass",
        ("tests/test_parameter_server.py::test_the_module_forgets_its_server",),
        "a module keeps an RRef beyond its world",
    ),
    Mutant(
        "leaked-context",
        "reference/dist_autograd.py",
        "        return recorder.trace()\n\n    def train_in_context",
        "        dist_autograd._new_context()\n        return recorder.trace()\n\n    def train_in_context",
        ("tests/test_promises.py::test_healthy[dist_autograd]",),
        "an autograd context that nobody releases",
    ),
    Mutant(
        "parameter-not-optimized",
        "reference/dist_autograd.py",
        "DistributedOptimizer(optim.SGD, list(self.parameters.values()), lr",
        "DistributedOptimizer(optim.SGD, list(self.parameters.values())[:1], lr",
        ("tests/test_dist_autograd.py::test_exact",),
        "the optimizer knows one of two parameters",
    ),
    Mutant(
        "micro-batches-as-they-come",
        _SHARD,
        "        return self._turnstile.run(number, lambda: self._compute(here, number))",
        "        return self._compute(here, number)",
        ("tests/test_shard.py::test_running_statistics_do_not_depend_on_arrival",),
        "micro-batches are computed in the order of their arrival",
    ),
    Mutant(
        "chain-not-restarted",
        _SHARD,
        "        if number % self.num_split == 0:",
        "        if number == 0:",
        ("tests/test_shard.py::test_each_batch_begins_with_the_parameters_themselves",),
        "a batch's graph hangs on that of the batch before",
    ),
    Mutant(
        "chain-dropped",
        "reference/chain.py",
        "        self.links = {name: link.view_as(link) for name, link in self.links.items()}",
        "        self.links = dict(self.links)",
        ("tests/test_chain.py::test_bits_of_a_plain_backward_pass",),
        "gradients of micro-batches add up in the order in which threads are done",
    ),
    Mutant(
        "split-by-size",
        _SHARD,
        "xs.tensor_split(self.num_split), start",
        "xs.split(self.num_split), start",
        ("tests/test_shard.py::test_num_split_is_the_number_of_micro_batches",),
        "parts of so many images instead of so many parts (S4.3)",
    ),
    Mutant(
        "turns-go-on",
        "reference/turnstile.py",
        '                self._fail(f"number {number} failed: {type(error).__name__}: {error}")',
        "                del error",
        ("tests/test_turnstile.py::test_a_failure_is_the_callers_own_and_ends_the_later_ones",),
        "after a failure the later ones wait for a turn that never comes",
    ),
    Mutant(
        "undiscounted",
        "reference/cartpole.py",
        "rewards[step] + gamma * following",
        "rewards[step] + following",
        ("tests/test_cartpole.py::test_returns_by_hand",),
        "returns without their discount, in the tutorial and its twin alike",
    ),
    Mutant(
        "last-reward-lost",
        "reference/reinforce.py",
        "            self._ask(Agent.report_reward, agent_rref, float(reward))\n"
        "            if terminated or truncated:\n"
        "                break",
        "            if terminated or truncated:\n"
        "                break\n"
        "            self._ask(Agent.report_reward, agent_rref, float(reward))",
        ("tests/test_promises.py::test_healthy[reinforce]", f"{_QUICK}[reinforce]"),
        "the last step's reward is not reported",
    ),
    Mutant(
        "broadcast-rewards",
        "reference/batch_reinforce.py",
        "    return (-log_probs * rewards / observers).sum()",
        "    return (-log_probs.unsqueeze(-1) * rewards.unsqueeze(-2) / observers).sum()",
        ("tests/test_batch_reinforce.py::test_the_published_broadcast_is_seen",),
        "every observer's rewards weigh every other's actions, as published (S2.27)",
    ),
    Mutant(
        "mask-of-the-first-step",
        "reference/rnn.py",
        '        with drawn(self.seed, f"rnn/{step}"):',
        '        with drawn(self.seed, "rnn/0"):',
        (f"{_QUICK}[rnn]",),
        "every step drops the same values",
    ),
    Mutant(
        "decoder-not-optimized",
        "reference/rnn.py",
        "for part in self.parts.values() for rref in",
        "for part in list(self.parts.values())[:2] for rref in",
        (f"{_QUICK}[rnn]",),
        "the optimizer does not know the decoder",
    ),
    Mutant(
        "one-replicas-gradient",
        "reference/hybrid_ddp.py",
        "        self.weight.grad = mean([self.held[name] for name in self.trainers])",
        "        self.weight.grad = mean([self.held[name] for name in self.trainers[:1]])",
        (f"{_QUICK}[hybrid_ddp]",),
        "the table learns from one trainer only",
    ),
    Mutant(
        "replicas-sum",
        "reference/hybrid_ddp.py",
        "    return total.div_(len(gradients))",
        "    return total",
        ("tests/test_hybrid_ddp.py::test_it_is_plain_training_on_everybodys_examples",),
        "sums instead of means, in the tutorial and its twin alike",
    ),
    Mutant(
        "shard-of-another-round",
        "reference/sharded_parameter_server.py",
        "        tensors = {name: tensor for shard in shards for name, tensor in shard.items()}\n"
        "        self.model.load_state_dict(tensors)",
        "        tensors = {name: tensor for shard in shards[:1] for name, tensor in shard.items()}\n"
        "        self.model.load_state_dict(tensors, strict=False)",
        (f"{_QUICK}[sharded_parameter_server]",),
        "a trainer takes the new tensors of one server only",
    ),
    Mutant(
        "failure-before-the-end",
        "reference/backward.py",
        "        ended.wait(timeout)",
        "        ended.is_set()",
        ("tests/test_backward.py::test_a_failure_comes_after_all_that_ran_here",),
        "who lets go of a model that DDP's hook still works on hangs",
    ),
    Mutant(
        "steps-without-end",
        "reference/hybrid_ddp.py",
        "        if self.step >= self.case.steps:",
        "        if self.step > 10**6:",
        ("tests/test_hybrid_ddp.py::test_a_report_after_the_last_step_is_refused",),
        "trainers that train twice make a trace of more steps than were asked for",
    ),
)
