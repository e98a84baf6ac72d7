"""Mistakes that a tutorial with servers shares with its twin: only its formula (tests/formulas/) can tell."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TEST = "tests/test_formulas_servers.py"
_UPDATE, _MODELS = "reference/update.py", "reference/models.py"


def _shared(
    name: str, tutorial: str, case: str, old: str, new: str, models: str, twin: tuple[str, str] | None = None
) -> Mutant:
    """A bug in what both use, or with ``twin`` (old, new) also in the twin's own code.

    ``tutorial`` is a module's name, or a file that several share; ``case`` names the row that tells.
    """
    file = tutorial if "/" in tutorial else f"reference/{tutorial}.py"
    also = () if twin is None else ((file, *twin),)
    return Mutant(name, file, old, new, (f"{_TEST}::test_the_trace_is_the_formulas[{case}]",), models, also=also)


_BASICS = (
    _shared(
        "inputs-of-one-step",
        *("rpc_basics", "rpc_basics"),
        'generator(case.seed, f"inputs/{step}")',
        'generator(case.seed, "inputs")',
        "the tensors that are added do not change with the step",
    ),
    _shared(
        "one-input-twice",
        *("rpc_basics", "rpc_basics"),
        "return torch.randn(shape, generator=draws), torch.randn(shape, generator=draws)",
        "return (torch.randn(shape, generator=draws),) * 2",
        "both summands are one tensor",
    ),
    _shared(
        "scaled-wrong-summand",
        *("rpc_basics", "rpc_basics"),
        "return x + 2 * y",
        "return 2 * x + y",
        "the wrong summand is scaled",
    ),
    _shared(
        "callee-reseeded-alike",
        *("rpc_basics", "rpc_basics"),
        'args=(seed_for(self.case.seed, f"{to}/{step}"),)',
        "args=(seed_for(self.case.seed, to),)",
        "what a callee draws does not change with the step",
        ('manual_seed(seed_for(case.seed, f"{to}/{step}"))', "manual_seed(seed_for(case.seed, to))"),
    ),
)

_FLOW = (
    Mutant(
        "makers-alike",
        "reference/rref_dataflow.py",
        'args=(case.seed, f"worker2/{step}", case.side)',
        'args=(case.seed, f"worker1/{step}", case.side)',
        (f"{_TEST}::test_the_trace_is_the_formulas[rref_dataflow]",),
        "two workers make the same data",
        also=(
            (
                "reference/rref_dataflow.py",
                'b = make(case.seed, f"worker2/{step}", case.side)',
                'b = make(case.seed, f"worker1/{step}", case.side)',
            ),
        ),
    ),
    _shared(
        "made-once",
        *("rref_dataflow", "rref_dataflow"),
        "generator=generator(seed, name)",
        'generator=generator(seed, name.partition("/")[0])',
        "the data that flows does not change with the step",
    ),
    _shared(
        "scaled-before-the-sum",
        *("rref_dataflow", "rref_dataflow"),
        "return a + b",
        "return 2 * a + b",
        "one of two summands counts twice",
    ),
    _shared(
        "scale-without-offset",
        *("rref_dataflow", "rref_dataflow"),
        "return total * 2 + 1",
        "return total * 2",
        "a constant is left out",
    ),
)

_AUTOGRAD = (
    _shared(
        "owners-alike",
        *("dist_autograd", "dist_autograd"),
        "draws = generator(case.seed, owner)",
        'draws = generator(case.seed, "owner")',
        "two parameters start from the same numbers",
    ),
    _shared(
        "uniform-for-normal",
        *("dist_autograd", "dist_autograd"),
        "values = torch.randn(shape, generator=draws)",
        "values = torch.rand(shape, generator=draws)",
        "parameters are drawn from another distribution",
    ),
    _shared(
        "contexts-weigh-alike",
        *("dist_autograd", "dist_autograd-exact"),
        "return (context + 1) * (a + b).pow(2).sum()",
        "return (a + b).pow(2).sum()",
        "every context has the same loss",
    ),
    _shared(
        "rate-shared-out",
        *("dist_autograd", "dist_autograd"),
        "list(self.parameters.values()), lr=case.lr)",
        "list(self.parameters.values()), lr=case.lr / case.contexts)",
        "the learning rate is divided among the contexts",
        ("optim.SGD(parameters.values(), lr=case.lr)", "optim.SGD(parameters.values(), lr=case.lr / case.contexts)"),
    ),
)

_SINGLE = (
    _shared(
        "teacher-of-each-worker",
        *("parameter_server", "parameter_server-workers"),
        'generator=generator(case.seed, "teacher")',
        'generator=generator(case.seed, f"teacher/{worker}")',
        "workers learn different things",
    ),
    _shared(
        "workers-see-the-same",
        *("parameter_server", "parameter_server-workers"),
        "draws = generator(case.seed, worker)",
        'draws = generator(case.seed, "worker")',
        "all workers draw the same batches",
    ),
    _shared(
        "one-batch-for-ever",
        *("parameter_server", "parameter_server"),
        "    for _ in range(case.steps):\n",
        "    for _ in range(case.steps):\n        draws.manual_seed(draws.initial_seed())\n",
        "a worker's batch does not change with the step",
    ),
    _shared(
        "target-of-the-next-row",
        *("parameter_server", "parameter_server"),
        "target = data @ teacher",
        "target = data.roll(1, 0) @ teacher",
        "rows of data meet other rows' targets",
    ),
    _shared(
        "loss-summed-over-outputs",
        *("parameter_server", "parameter_server-waiting"),
        "(output - target).pow(2).mean()",
        "(output - target).pow(2).sum(1).mean()",
        "the mean is taken over rows only",
    ),
    _shared(
        "loss-in-float32",
        *("parameter_server", "parameter_server-float64"),
        "(output - target).pow(2).mean()",
        "(output - target).float().pow(2).mean().to(output.dtype)",
        "float64 is rounded to float32 on the way",
    ),
    _shared(
        "gradients-of-all-batches-so-far",
        *("parameter_server", "parameter_server"),
        "    model.zero_grad()\n",
        "",
        "gradients of earlier batches are added",
    ),
    _shared(
        "waits-when-it-should-not",
        *("parameter_server", "parameter_server"),
        "if pending is not None and self.case.staleness == 0:",
        "if pending is not None and self.case.staleness == 1:",
        "the two kinds of staleness are mistaken for each other",
        ("if self.pulled and self.case.staleness == 1:", "if self.pulled and self.case.staleness == 0:"),
    ),
    _shared(
        "parameters-of-before-the-step",
        *("parameter_server", "parameter_server"),
        "            self.optimizer.step()\n"
        "            self.recorder.step(self.updates, {worker: loss}, gradients_dict, parameters)\n",
        "            self.recorder.step(self.updates, {worker: loss}, gradients_dict, parameters)\n"
        "            self.optimizer.step()\n",
        "parameters are recorded before they are updated",
        (
            "        optimizer.step()\n        recorder.step(pushes, {names[index]: loss}, gradients, parameters)\n",
            "        recorder.step(pushes, {names[index]: loss}, gradients, parameters)\n        optimizer.step()\n",
        ),
    ),
    _shared(
        "bias-left-out",
        *("parameter_server", "parameter_server"),
        "for name, gradient in gradients_dict.items()}",
        'for name, gradient in gradients_dict.items() if name != "bias"}',
        "a parameter is never trained",
        (
            "        for name, parameter in parameters.items():\n            parameter.grad = gradients[name]\n",
            '        parameters["weight"].grad = gradients["weight"]\n',
        ),
    ),
    _shared(
        "rate-of-all-workers",
        *("parameter_server", "parameter_server-workers"),
        "self.optimizer = optim.SGD(self.model.parameters(), lr=case.lr)",
        "self.optimizer = optim.SGD(self.model.parameters(), lr=case.lr / case.workers)",
        "the learning rate is divided among the workers",
        (
            "    optimizer = optim.SGD(model.parameters(), lr=case.lr)",
            "    optimizer = optim.SGD(model.parameters(), lr=case.lr / case.workers)",
        ),
    ),
    _shared(
        "linear-integers-from-0",
        *("parameter_server", "parameter_server-exact"),
        "parameter.data.copy_(torch.randint(-2, 3, parameter.shape))",
        "parameter.data.copy_(torch.randint(0, 3, parameter.shape))",
        "exact parameters are never negative",
    ),
)

_BATCH = "batch_parameter_server"
_IN_CONVNET, _IN_MLP, _IN_EXACT = f"{_BATCH}-convnet", f"{_BATCH}-mlp", f"{_BATCH}-exact"

_ROUNDS = (
    _shared(
        "buffers-summed",
        *(_UPDATE, _IN_CONVNET),
        "                total /= count\n",
        "",
        "batch norm's statistics are added up, not averaged",
    ),
    _shared(
        "buffers-of-the-first",
        *(_UPDATE, _IN_CONVNET),
        "                for other in each[1:]:",
        "                for other in each[:1] * (count - 1):",
        "batch norm's statistics are the first trainer's",
    ),
    _shared(
        "batches-counted-by-all",
        *(_UPDATE, _IN_CONVNET),
        "            total = each[0].clone()",
        "            total = each[0].clone() if buffer.is_floating_point() else sum(each)",
        "batch norm's number of batches is added up over the trainers",
    ),
    _shared(
        "buffers-as-they-were",
        *(_UPDATE, _IN_CONVNET),
        "            buffer.copy_(total)",
        "            pass",
        "batch norm's statistics stay those of the beginning (S2.8)",
    ),
    _shared(
        "labels-of-the-next-class",
        *(_BATCH, _IN_CONVNET),
        "scatter_(1, self.one_hot_indices, 1)",
        "scatter_(1, (self.one_hot_indices + 1) % case.num_classes, 1)",
        "one-hot labels are shifted by a class",
    ),
    _shared(
        "trainers-see-the-same",
        *(_BATCH, _IN_MLP),
        "self.draws = generator(case.seed, name)",
        'self.draws = generator(case.seed, "trainer")',
        "all trainers draw the same batches",
    ),
    _shared(
        "images-of-one-round",
        *(_BATCH, _IN_MLP),
        "        for _ in range(case.steps):\n            if case.arithmetic",
        "        for _ in range(case.steps):\n            self.draws = generator(case.seed, self.name)\n"
        "            if case.arithmetic",
        "a trainer's images do not change with the round",
    ),
    _shared(
        "labels-drawn-after-the-images",
        *(_BATCH, _IN_MLP),
        "torch.randint(case.num_classes, (case.batch_size, 1), generator=self.draws)",
        'torch.randint(case.num_classes, (case.batch_size, 1), generator=generator(case.seed, f"labels/{name}"))',
        "labels come from another generator than is said",
    ),
    _shared(
        "loss-summed-over-the-batch",
        *(_BATCH, _IN_MLP),
        "nn.MSELoss()",
        'nn.MSELoss(reduction="sum")',
        "the loss is a sum, not a mean",
    ),
    _shared(
        "loss-rounded",
        *(_BATCH, f"{_BATCH}-float64"),
        "loss = self.loss_fn(m(inputs), labels)",
        "loss = self.loss_fn(m(inputs).float(), labels.float()).to(labels.dtype)",
        "float64 is rounded to float32 on the way",
    ),
    _shared(
        "labels-without-one",
        *(_UPDATE, _IN_EXACT),
        "return (outputs * (labels + 1)).sum()",
        "return (outputs * labels).sum()",
        "exact arithmetic trains one class only",
    ),
    _shared(
        "momentum-dampened",
        *(_BATCH, _IN_MLP),
        "momentum=case.momentum, fused=True)",
        "momentum=case.momentum, dampening=case.momentum, fused=True)",
        "the velocity is a running mean of gradients",
    ),
    _shared(
        "momentum-looks-ahead",
        *(_BATCH, _IN_MLP),
        "momentum=case.momentum, fused=True)",
        "momentum=case.momentum, nesterov=case.momentum > 0, fused=True)",
        "momentum is applied once more before the step",
    ),
    _shared(
        "mean-over-images",
        *(_UPDATE, _IN_MLP),
        "parameter.grad /= count",
        "parameter.grad /= count + 1",
        "the mean is over one more than there are",
    ),
    _shared(
        "convnet-without-relu",
        *(_MODELS, _IN_CONVNET),
        "        nn.ReLU(),\n        nn.AdaptiveAvgPool2d(2),",
        "        nn.Identity(),\n        nn.AdaptiveAvgPool2d(2),",
        "a layer is left out of the model",
    ),
    _shared(
        "statistics-too-eager",
        *(_MODELS, _IN_CONVNET),
        "nn.BatchNorm2d(HIDDEN)",
        "nn.BatchNorm2d(HIDDEN, momentum=0.5)",
        "batch norm's running statistics forget too soon",
    ),
    _shared(
        "drawn-from-the-last",
        *(_MODELS, _IN_EXACT),
        "for parameter in model.parameters():",
        "for parameter in reversed(list(model.parameters())):",
        "initial parameters are drawn in another order",
    ),
    _shared(
        "models-alike",
        *(_MODELS, _IN_MLP),
        'seed_for(seed, "model")',
        'seed_for(0, "model")',
        "the initial model does not depend on the seed",
    ),
    Mutant(
        "servers-hold-equally-many",
        "reference/placement.py",
        "        held[owner[name]] += sizes[name]",
        "        held[owner[name]] += 1",
        (f"{_TEST}::test_tensors_are_dealt_out_by_their_sizes",),
        "tensors are dealt out by their number, not by their sizes",
    ),
)

_HYBRID = (
    _shared(
        "rows-vote-anew",
        *("hybrid_ddp", "hybrid_ddp"),
        'generator=generator(case.seed, "votes")',
        'generator=generator(case.seed, f"votes/{name}")',
        "trainers learn different things",
    ),
    _shared(
        "ties-to-the-highest",
        *("hybrid_ddp", "hybrid_ddp"),
        "torch.ones_like(indices)).argmax(1)",
        "torch.ones_like(indices)).flip(1).argmax(1).neg().add(case.num_classes - 1)",
        "of classes with equally many votes the highest wins",
    ),
    _shared(
        "votes-of-the-row-before",
        *("hybrid_ddp", "hybrid_ddp"),
        "votes[indices]",
        "votes[indices - 1]",
        "rows of the table are numbered from 1 in one place",
    ),
    _shared(
        "bags-of-one-step",
        *("hybrid_ddp", "hybrid_ddp"),
        "    for _ in range(case.steps):\n        indices",
        "    for _ in range(case.steps):\n        draws = generator(case.seed, name)\n        indices",
        "a trainer's batch does not change with the step",
    ),
    _shared(
        "bags-alike",
        *("hybrid_ddp", "hybrid_ddp"),
        "draws = generator(case.seed, name)\n    for",
        'draws = generator(case.seed, "trainer")\n    for',
        "all trainers draw the same batches",
    ),
    _shared(
        "bags-averaged",
        *("hybrid_ddp", "hybrid_ddp"),
        'mode="sum"',
        'mode="mean"',
        "a bag is the mean of its rows",
    ),
    _shared(
        "classes-weigh-differently",
        *("hybrid_ddp", "hybrid_ddp"),
        "nn.functional.cross_entropy(output, target)",
        "nn.functional.cross_entropy(output, target, label_smoothing=0.1)",
        "the loss is another than is said",
    ),
    _shared(
        "right-class-counts-once",
        *("hybrid_ddp", "hybrid_ddp-exact"),
        "(1 + nn.functional.one_hot(target, case.num_classes))",
        "nn.functional.one_hot(target, case.num_classes)",
        "exact arithmetic trains one class only",
    ),
    _shared(
        "parts-drawn-alike",
        *("hybrid_ddp", "hybrid_ddp-exact"),
        "draws = generator(case.seed, name)\n        for parameter",
        'draws = generator(case.seed, "parts")\n        for parameter',
        "the table and the dense part start from the same numbers",
    ),
    _shared(
        "table-at-another-rate",
        *("hybrid_ddp", "hybrid_ddp"),
        "optim.SGD(self.embedding.parameters(), lr=case.lr)",
        "optim.SGD(self.embedding.parameters(), lr=case.lr * case.trainers)",
        "the table has another learning rate than the dense part",
        (
            "[optim.SGD(part.parameters(), lr=case.lr) for part in (sparse, dense)]",
            "[\n        optim.SGD(sparse.parameters(), lr=case.lr * case.trainers),\n"
            "        optim.SGD(dense.parameters(), lr=case.lr),\n    ]",
        ),
    ),
    _shared(
        "last-replica-counts-half",
        *("hybrid_ddp", "hybrid_ddp"),
        "        total += gradient\n    return total.div_(len(gradients))",
        "        total = (total + gradient) / 2\n    return total",
        "a mean of means weighs the trainers differently",
    ),
)

MUTANTS: tuple[Mutant, ...] = (*_BASICS, *_FLOW, *_AUTOGRAD, *_SINGLE, *_ROUNDS, *_HYBRID)
