"""Mistakes that an agent, a pipeline or a language model shares with its twin: in a helper of both, or in both."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_POLE, _ONE, _MANY = "reference/training/cartpole.py", "reference/reinforce.py", "reference/batch_reinforce.py"
_RNN, _TEXT, _PIPE = "reference/rnn.py", "reference/training/data.py", "reference/pipeline.py"
_TRACE, _GAME = "reference/trace/trace.py", "reference/training/batch_episode.py"
_HALVES_FILE = "reference/training/models.py"


def _killers(*cases: str) -> tuple[str, ...]:
    return tuple(f"tests/reference/test_formulas_agents.py::test_a_twin_computes_the_formula[{case}]" for case in cases)


_BYTES = ("tests/reference/test_formulas_agents.py::test_rnn_numbers_bytes_of_every_kind",)
_HALVES = ("tests/reference/test_formulas_agents.py::test_both_halves_of_a_resnet50_are_drawn_by_the_formula",)


def _standing(tutorial: str) -> tuple[str, ...]:
    return (
        f"tests/reference/test_formulas_agents.py::test_a_twin_computes_the_formula_of_a_pole_that_stands[{tutorial}]",
    )


def _default(tutorial: str) -> tuple[str, ...]:
    return (f"tests/reference/test_published_defaults.py::test_defaults_are_the_published_values[{tutorial}]",)


_AGENTS = (
    Mutant(
        "gamma-squared",
        _POLE,
        "rewards[step] + gamma * following",
        "rewards[step] + gamma * gamma * following",
        _killers("reinforce-episodes"),
        "each step later counts by the square of the discount less",
    ),
    Mutant(
        "returns-over-restarts",
        _MANY,
        "                rewards[start_step:] = cartpole.discounted(rewards[start_step:], self.case.gamma)\n"
        "                state, _ = self.env.reset()",
        "                if step + 1 >= n_steps:\n"
        "                    rewards = cartpole.discounted(rewards, self.case.gamma)\n"
        "                state, _ = self.env.reset()",
        _killers("batch_reinforce-episodes"),
        "an action is rewarded with what a later start of the environment earns",
        also=(
            (
                _GAME,
                "        return [value for start in self.starts for value in discounted(start, gamma)]",
                "        return discounted([reward for start in self.starts for reward in start], gamma)",
            ),
        ),
    ),
    Mutant(
        "reward-of-the-last-start",
        _MANY,
        "                if start_step == 0:\n                    ep_reward = step + 1\n",
        "                ep_reward = step + 1 - start_step\n",
        _killers("batch_reinforce-episodes"),
        "an episode's reward is the length of the last start of its environment",
        also=((_MANY, "sum(len(game.starts[0]) for", "sum(len(game.starts[-2]) for"),),
    ),
    Mutant(
        "reward-of-all-starts",
        _MANY,
        "                if start_step == 0:\n                    ep_reward = step + 1\n",
        "                ep_reward = step + 1\n",
        _killers("batch_reinforce-episodes"),
        "an episode's reward is its length, however often the pole fell",
        also=((_MANY, "sum(len(game.starts[0]) for", "sum(len([r for s in game.starts for r in s]) for"),),
    ),
    Mutant(
        "one-mask-for-all-steps",
        _GAME,
        "        place = (step,) if observer is None else (step, observer)",
        "        place = (0,) if observer is None else (0, observer)",
        _killers("batch_reinforce-alone"),
        "every step of an episode drops the same units",
    ),
    Mutant(
        "one-mask-for-all-observers",
        _GAME,
        "        place = (step,) if observer is None else (step, observer)",
        "        place = (step, slice(1)) if observer is None else (step, 0)",
        _killers("batch_reinforce-episodes"),
        "every observer's step drops the units that the first one's drops",
    ),
    Mutant(
        "mask-of-an-episodes-first-step",
        _ONE,
        "None if record.draws.dropout_mask is None else record.draws.dropout_mask[step]",
        "None if record.draws.dropout_mask is None else record.draws.dropout_mask[0]",
        _killers("reinforce-episodes"),
        "every step of an episode drops the same units",
    ),
    Mutant(
        "draws-of-the-first-episode",
        _POLE,
        "        uniforms = torch.rand(steps, generator=self.draws, dtype=torch.float64)",
        "        self.draws.manual_seed(self.draws.initial_seed())\n"
        "        uniforms = torch.rand(steps, generator=self.draws, dtype=torch.float64)",
        _killers("reinforce-episodes"),
        "every episode has the first one's draws",
    ),
    Mutant(
        "draws-of-the-first-observer",
        _POLE,
        "        self.draws = generator(seed, observer)",
        '        self.draws = generator(seed, "observer1")',
        _killers("batch_reinforce-episodes"),
        "every observer has the first one's draws",
    ),
    Mutant(
        "one-start-state-for-all",
        _POLE,
        '    return seed_for(seed, f"{observer}/environment")',
        '    return seed_for(seed, "observer1/environment")',
        _killers("reinforce-episodes"),
        "every observer's environment starts as the first one's, as published (S2.25)",
    ),
    Mutant(
        "dropout-without-scale",
        _POLE,
        "kept.to(self.dtype) / (1 - self.dropout)",
        "kept.to(self.dtype)",
        _killers("reinforce-episodes"),
        "kept units are not divided by the probability that they are kept",
    ),
    Mutant(
        "dropout-inverted",
        _POLE,
        "generator=self.draws) >= self.dropout",
        "generator=self.draws) < self.dropout",
        _killers("reinforce-episodes"),
        "units are kept as often as they should be dropped",
    ),
    Mutant(
        "action-of-the-complement",
        _POLE,
        "            if uniform < total:",
        "            if 1 - uniform < total:",
        _killers("reinforce-episodes"),
        "actions are chosen with the right probabilities by the wrong draw",
    ),
    Mutant(
        "sample-deviation",
        _POLE,
        "(away * away).mean().sqrt()",
        "((away * away).sum() / (len(away) - 1)).sqrt()",
        _killers("reinforce-episodes"),
        "the deviation of a sample, which one step alone does not have",
    ),
    Mutant(
        "returns-not-centred",
        _POLE,
        "(away / (deviation + EPS))",
        "(flat / (deviation + EPS))",
        _killers("reinforce-episodes"),
        "returns are not brought to mean 0",
    ),
    Mutant(
        "returns-centred-apart",
        _POLE,
        "    return [*(away / (deviation + EPS)).split([len(each) for each in returns])]",
        "    parts = away.split([len(each) for each in returns])\n"
        "    return [(each - each.mean()) / (each.std(correction=0) + EPS) for each in parts]",
        _killers("reinforce-episodes"),
        "each observer's returns are standardized by themselves",
    ),
    Mutant(
        "log-of-another-action",
        _ONE,
        "record.log_probs.append(probs[:, action].log())",
        "record.log_probs.append(probs[:, 0].log())",
        _killers("reinforce-episodes"),
        "the policy learns an action that was not taken",
    ),
    Mutant(
        "log-of-the-likeliest-action",
        _MANY,
        "probs.gather(1, torch.tensor(actions).unsqueeze(1)).squeeze(1).log()",
        "probs.amax(1).log()",
        _killers("batch_reinforce-episodes"),
        "the policy learns the action that it prefers, whichever was taken",
    ),
    Mutant(
        "unlearning",
        _ONE,
        "    return [(-torch.cat(record.log_probs) *",
        "    return [(torch.cat(record.log_probs) *",
        _killers("reinforce-episodes"),
        "the loss has the wrong sign",
    ),
    Mutant(
        "sum-over-observers",
        _MANY,
        "(-log_probs * each / case.observers).sum()",
        "(-log_probs * each).sum()",
        _killers("batch_reinforce-episodes"),
        "the loss is not divided by the number of observers",
    ),
    Mutant(
        "best-observer",
        _ONE,
        "        min_reward = min(sum",
        "        min_reward = max(sum",
        _killers("reinforce-episodes"),
        "an episode's reward is the best observer's",
        also=((_ONE, "        worst = min(sum", "        worst = max(sum"),),
    ),
    Mutant(
        "hasty-average",
        _ONE,
        "0.05 * min_reward + (1 - 0.05) * self.running_reward",
        "(1 - 0.05) * min_reward + 0.05 * self.running_reward",
        _killers("reinforce-episodes"),
        "the running reward is 95 % of the newest",
        also=((_ONE, "0.05 * worst + 0.95 * running", "0.95 * worst + 0.05 * running"),),
    ),
    Mutant(
        "fall-not-rewarded",
        _ONE,
        "(Agent.report_reward, agent_rref, self.rank, float(reward))",
        "(Agent.report_reward, agent_rref, self.rank, 0.0 if terminated else float(reward))",
        _killers("reinforce-episodes"),
        "the step on which the pole falls earns nothing",
        also=(
            (
                _ONE,
                "        record.rewards.append(float(reward))",
                "        record.rewards.append(0.0 if terminated else float(reward))",
            ),
        ),
    ),
    Mutant(
        "over-at-the-limit-only",
        _MANY,
        "            if terminated or truncated or step + 1 >= n_steps:",
        "            if terminated or step + 1 >= n_steps:",
        _killers("batch_reinforce-car"),
        "an environment that has reached its limit of steps goes on",
        also=((_GAME, "        if terminated or truncated or last:", "        if terminated or last:"),),
    ),
    Mutant(
        "states-one-step-late",
        _MANY,
        "        state, _ = self.env.reset()\n                if start_step == 0:",
        "        self.env.reset()\n                if start_step == 0:",
        _killers("batch_reinforce-episodes"),
        "the first action of a start is chosen for the state in which the one before it ended",
        also=(
            (
                _GAME,
                "        if terminated or truncated or last:\n            self._start()",
                "        if terminated or truncated or last:\n"
                "            self.env.reset()\n            self.starts.append([])",
            ),
        ),
    ),
    Mutant(
        "returns-of-single-precision",
        _MANY,
        "        return torch.tensor(rewards, dtype=self.case.torch_dtype), ep_reward",
        "        return torch.tensor(rewards), ep_reward",
        _killers("batch_reinforce-others"),
        "returns do not have the case's dtype",
        also=(
            (
                _MANY,
                "[game.returns(case.gamma) for game in games], dtype=case.torch_dtype).t()",
                "[game.returns(case.gamma) for game in games]).t()",
            ),
        ),
    ),
)

_LANGUAGE = (
    Mutant(
        "embeddings-mask-of-the-first-step",
        _RNN,
        '        with seeded(seed, f"emb_table/{step}"):',
        '        with seeded(seed, "emb_table/0"):',
        _killers("rnn-epochs"),
        "every step drops the same numbers of the embeddings",
    ),
    Mutant(
        "decoders-mask-of-the-embedding",
        _RNN,
        '        with seeded(seed, f"decoder/{step}"):',
        '        with seeded(seed, f"emb_table/{step}"):',
        _killers("rnn-epochs"),
        "two parts of the model drop by the same draws",
    ),
    Mutant(
        "layers-mask-of-the-first-step",
        _RNN,
        '        with seeded(self.seed, f"rnn/{step}"):',
        '        with seeded(self.seed, "rnn/0"):',
        _killers("rnn-epochs"),
        "every step drops the same values between the layers",
        also=((_RNN, '        with seeded(case.seed, f"rnn/{step}"):', '        with seeded(case.seed, "rnn/0"):'),),
    ),
    Mutant(
        "no-dropout-between-layers",
        _RNN,
        "    inner = dropout if nlayers > 1 else 0.0",
        "    inner = 0.0",
        _killers("rnn-epochs"),
        "the LSTM drops nothing between its layers",
    ),
    Mutant(
        "state-zeroed-each-step",
        _RNN,
        "            if step % case.batches == 0:\n                hidden = first_hidden(case)\n",
        "            hidden = first_hidden(case)\n",
        _killers("rnn-no-dropout"),
        "the state does not go from batch to batch",
        also=(
            (
                _RNN,
                "        if step % case.batches == 0:\n            hidden = first_hidden(case)\n        emb",
                "        hidden = first_hidden(case)\n        emb",
            ),
        ),
    ),
    Mutant(
        "state-of-the-last-epoch",
        _RNN,
        "            if step % case.batches == 0:\n                hidden = first_hidden(case)\n",
        "            if step == 0:\n                hidden = first_hidden(case)\n",
        _killers("rnn-epochs"),
        "an epoch begins with the state in which the one before it ended",
        also=(
            (
                _RNN,
                "        if step % case.batches == 0:\n            hidden = first_hidden(case)\n        emb",
                "        if step == 0:\n            hidden = first_hidden(case)\n        emb",
            ),
        ),
    ),
    Mutant(
        "targets-two-later",
        _TEXT,
        "(index + 1) * sequence + 1)[:, None] + starts\n"
        "        tokens = self.tokens[places % len(self.text)]\n"
        "        return tokens[:-1], tokens[1:]",
        "(index + 1) * sequence + 2)[:, None] + starts\n"
        "        tokens = self.tokens[places % len(self.text)]\n"
        "        return tokens[:-2], tokens[2:]",
        _killers("rnn-epochs"),
        "the model predicts the byte after the next",
    ),
    Mutant(
        "sequences-not-spread",
        _TEXT,
        "        starts = torch.arange(batch_size) * len(self.text) // batch_size",
        "        starts = torch.arange(batch_size)",
        _killers("rnn-epochs"),
        "all sequences of a batch read the beginning of the text",
    ),
    Mutant(
        "first-batch-again",
        _RNN,
        "        yield corpus.batch(index, case.sequence, case.batch_size)",
        "        yield corpus.batch(0, case.sequence, case.batch_size)",
        _killers("rnn-epochs"),
        "every batch of an epoch is its first",
    ),
    Mutant(
        "loss-of-a-sum",
        _RNN,
        "target.reshape(-1))",
        'target.reshape(-1), reduction="sum")',
        _killers("rnn-epochs"),
        "the loss is a sum over tokens instead of their mean",
    ),
    Mutant(
        "another-rate",
        _RNN,
        'lr: float = number_field(0.05, "learning rate',
        'lr: float = number_field(0.5, "learning rate',
        _default("rnn"),
        "a default is not the published number",
    ),
)

_PIPELINE = (
    Mutant(
        "loss-by-image",
        _PIPE,
        "else nn.MSELoss()",
        'else nn.MSELoss(reduction="sum")',
        _killers("pipeline-parts"),
        "the loss is a sum over images and classes instead of their mean",
    ),
    Mutant(
        "loss-of-one-class",
        "reference/training/gradients.py",
        "    return (outputs * (labels + 1)).sum()",
        "    return (outputs * labels).sum()",
        _killers("pipeline-exact"),
        "the exact loss leaves out the classes that an image does not have",
    ),
    Mutant(
        "images-of-the-first-batch",
        "reference/training/data.py",
        "            inputs = torch.randn(shape, generator=draws)",
        '            inputs = torch.randn(shape, generator=generator(case.seed, "images"))',
        _killers("pipeline-parts"),
        "every batch has the same images",
    ),
    Mutant(
        "halves-drawn-alike",
        _PIPE,
        '{"name": f"shard{half}",',
        '{"name": "shard1",',
        _killers("pipeline-parts"),
        "both halves draw the same numbers",
    ),
    Mutant(
        "halves-not-bent",
        _HALVES_FILE,
        "        last = half == 2 and place == depth - 1",
        "        last = half == 2 and place == depth - 1\n        if half == 1 and place == depth - 1:\n"
        "            return nn.Sequential(*layers, nn.Linear(inputs, width))",
        _killers("pipeline-parts"),
        "the first half lacks its last ReLU",
    ),
    Mutant(
        "last-step-not-taken",
        _PIPE,
        "            opt.step(context_id)",
        "            if step < case.steps - 1:\n                opt.step(context_id)",
        _killers("pipeline-parts"),
        "the last batch changes nothing",
        also=((_PIPE, "        opt.step()\n", "        if step < case.steps - 1:\n            opt.step()\n"),),
    ),
    Mutant(
        "one-rate-for-all",
        _PIPE,
        "model.parameter_rrefs(), lr=case.lr)",
        "model.parameter_rrefs(), lr=0.05)",
        _killers("pipeline-others"),
        "the case's learning rate is not used",
        also=((_PIPE, "for p in shard.parameters()], lr=case.lr)", "for p in shard.parameters()], lr=0.05)"),),
    ),
    Mutant(
        "gradients-added-up",
        _PIPE,
        "            dist_autograd.backward(context_id, [loss])",
        "            dist_autograd.backward(context_id, [loss * (step + 1)])",
        _killers("pipeline-parts"),
        "a step takes the gradients of the steps before it as well",
        also=((_PIPE, "        opt.zero_grad()\n", "        opt.zero_grad() if step == 0 else None\n"),),
    ),
    Mutant(
        "buffers-of-the-last-part",
        _HALVES_FILE,
        "        self._norm_layer = nn.BatchNorm2d",
        "        self._norm_layer = lambda channels: nn.BatchNorm2d(channels, momentum=1.0)",
        _killers("pipeline-resnet50"),
        "batch norm's statistics are those of the last micro-batch alone",
    ),
    Mutant(
        "published-splits",
        _PIPE,
        "xs.tensor_split(self.num_split)",
        "xs.split(self.num_split)",
        _killers("pipeline-resnet50"),
        "parts of so many images instead of so many parts (S4.3), in the twin as well",
        also=((_PIPE, "for x in inputs.tensor_split(case.num_split)])", "for x in inputs.split(case.num_split)])"),),
    ),
    Mutant(
        "first-half-initialised",
        _PIPE,
        "        self.fc = nn.Linear(FEATURES, num_classes)\n        initialise(self)",
        "        self.fc = nn.Linear(FEATURES, num_classes)",
        _killers("pipeline-resnet50"),
        "the second half's convolutions are drawn by another rule than the first's, as published (S4.9)",
    ),
    Mutant(
        "live-trace",
        _TRACE,
        'tensor.detach().to("cpu", copy=True).contiguous()',
        'tensor.detach().to("cpu").contiguous()',
        _killers("rnn-epochs"),
        "a trace shares memory with the parameters, so that all its steps are the last",
    ),
)

# Right as long as roles, steps, sizes and numbers are small.
_BEYOND = (
    Mutant(
        "observers-name-cut",
        _POLE,
        "        self.draws = generator(seed, observer)",
        "        self.draws = generator(seed, observer[:9])",
        _killers("reinforce-many"),
        "observers 1, 10 and 11 draw the same",
    ),
    Mutant(
        "environments-name-cut",
        _POLE,
        '    return seed_for(seed, f"{observer}/environment")',
        '    return seed_for(seed, f"{observer[:9]}/environment")',
        _killers("batch_reinforce-many"),
        "the environments of observers 1, 10 and 11 start alike",
    ),
    Mutant(
        "policy-with-relu6",
        _ONE,
        "        x = F.relu(x)",
        "        x = F.relu6(x)",
        _killers("reinforce-many"),
        "what exceeds 6 is cut off",
    ),
    Mutant(
        "pole-of-200-steps",
        _POLE,
        "gymnasium.make(name, disable_env_checker=True)",
        'gymnasium.make(name, disable_env_checker=True, max_episode_steps=200 if "Pole" in name else None)',
        _standing("reinforce"),
        "an environment ends as its older version does",
    ),
    Mutant(
        "returns-of-60-at-most",
        _POLE,
        "following = rewards[step] + gamma * following",
        "following = min(60.0, rewards[step] + gamma * following)",
        _standing("reinforce"),
        "rewards long afterwards do not count",
    ),
    Mutant(
        "reward-of-300-at-most",
        _MANY,
        "                    ep_reward = step + 1\n",
        "                    ep_reward = min(step + 1, 300)\n",
        _standing("batch_reinforce"),
        "an episode's reward is 300 at most",
        also=((_MANY, "sum(len(game.starts[0]) for", "sum(min(len(game.starts[0]), 300) for"),),
    ),
    Mutant(
        "uniforms-come-round-again",
        _GAME,
        "        uniforms = self._uniforms[step]",
        "        uniforms = self._uniforms[step % 512]",
        _standing("batch_reinforce"),
        "an episode's draws begin anew after 512 steps",
    ),
    Mutant(
        "returns-standardized-by-ten",
        _POLE,
        "flat - flat.mean()",
        "flat - flat[: sum(map(len, returns[:10]))].mean()",
        _killers("reinforce-many"),
        "the returns of the eleventh observer do not count for their mean",
    ),
    Mutant(
        "loss-of-ten-observers",
        _MANY,
        "(-log_probs * each / case.observers).sum()",
        "(-log_probs * each / min(case.observers, 10)).sum()",
        _killers("batch_reinforce-many"),
        "a loss is divided by ten observers at most",
    ),
    Mutant(
        "adams-rate-of-one-at-most",
        _ONE,
        "optim.Adam(self.policy.parameters(), lr=case.lr)",
        "optim.Adam(self.policy.parameters(), lr=min(case.lr, 1.0))",
        _killers("reinforce-many"),
        "a large learning rate is another one",
        also=(
            (
                _ONE,
                "optim.Adam(policy.parameters(), lr=case.lr)",
                "optim.Adam(policy.parameters(), lr=min(case.lr, 1.0))",
            ),
        ),
    ),
    Mutant(
        "embeddings-masks-come-round-again",
        _RNN,
        '        with seeded(seed, f"emb_table/{step}"):',
        '        with seeded(seed, f"emb_table/{step % 8}"):',
        _killers("rnn-many"),
        "the ninth step drops what the first one dropped",
    ),
    Mutant(
        "epochs-of-eight-batches",
        _RNN,
        "        yield corpus.batch(index, case.sequence, case.batch_size)",
        "        yield corpus.batch(index % 8, case.sequence, case.batch_size)",
        _killers("rnn-many"),
        "the ninth batch of an epoch is its first",
    ),
    Mutant(
        "no-dropout-in-deep-models",
        _RNN,
        "    inner = dropout if nlayers > 1 else 0.0",
        "    inner = dropout if 1 < nlayers < 8 else 0.0",
        _killers("rnn-deep"),
        "an LSTM of many layers drops nothing between them",
    ),
    Mutant(
        "words-rate-of-one-at-most",
        _RNN,
        "model.parameter_rrefs(), lr=case.lr)",
        "model.parameter_rrefs(), lr=min(case.lr, 1.0))",
        _killers("rnn-many"),
        "a large learning rate is another one",
        also=((_RNN, "(model.parameters(), lr=case.lr)", "(model.parameters(), lr=min(case.lr, 1.0))"),),
    ),
    Mutant(
        "words-cut-off-at-6",
        _RNN,
        "cross_entropy(output.reshape(-1, output.shape[-1]),",
        "cross_entropy(output.reshape(-1, output.shape[-1]).clamp(-6, 6),",
        _killers("rnn-many"),
        "a sure score counts as a less sure one",
    ),
    Mutant(
        "ends-of-lines-translated",
        _TEXT,
        "    return content_of(Path(path), LONGEST)",
        '    return content_of(Path(path), LONGEST).replace(b"\\r\\n", b"\\n")',
        _BYTES,
        "a text is read by lines, not by bytes",
    ),
    Mutant(
        "starts-counted-in-characters",
        _TEXT,
        "        starts = torch.arange(batch_size) * len(self.text) // batch_size",
        '        starts = torch.arange(batch_size) * len(self.text.decode(errors="ignore")) // batch_size',
        _BYTES,
        "a text's length is that of its characters, not of its bytes",
    ),
    Mutant(
        "scores-linear-beyond-6",
        _PIPE,
        "else nn.MSELoss()",
        "else lambda scores, labels: 2 * nn.functional.huber_loss(scores, labels, delta=6.0)",
        _killers("pipeline-steep"),
        "large errors are not squared",
    ),
    Mutant(
        "images-classes-in-a-byte",
        "reference/training/data.py",
        "one_hot_indices = torch.randint(num_classes, (shape[0], 1), generator=draws)",
        "one_hot_indices = torch.randint(num_classes, (shape[0], 1), generator=draws) % 256",
        _killers("pipeline-many"),
        "classes from 256 on are taken for others",
    ),
    Mutant(
        "straight-from-the-ninth-layer-on",
        _HALVES_FILE,
        "*([] if last else [nn.ReLU()])",
        "*([] if last or place > 7 else [nn.ReLU()])",
        _killers("pipeline-deep"),
        "a deep half lacks its last ReLUs",
    ),
    Mutant(
        "resnets-halves-by-another-name",
        _PIPE,
        '{"name": f"shard{half}",',
        '{"name": f"shard{half}" if case.model == "mlp" else f"resnet{half}",',
        _HALVES,
        "one of the models is drawn by another name",
    ),
    Mutant(
        "residuals-of-halves-begin-at-zero",
        _HALVES_FILE,
        '            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")',
        '            nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")\n'
        "        elif isinstance(m, Bottleneck):\n"
        "            nn.init.zeros_(m.bn3.weight)",
        _HALVES,
        "the last batch norm of every block begins at zero",
    ),
    Mutant(
        "stem-with-relu6",
        _HALVES_FILE,
        "            nn.ReLU(inplace=True),",
        "            nn.ReLU6(inplace=True),",
        _killers("pipeline-resnet50-steep"),
        "what exceeds 6 is cut off",
    ),
)

MUTANTS: tuple[Mutant, ...] = (*_AGENTS, *_LANGUAGE, *_PIPELINE, *_BEYOND)
