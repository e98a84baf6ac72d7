"""Mistakes that a tutorial with servers shares with its twin: only its formula (tests/formulas/) can tell.

The tests that know no formula let every one of these pass: runs against twins, plain training, and learning.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_TEST = "tests/reference/test_formulas_servers.py"
_MODELS, _TRACE = "reference/training/models.py", "reference/trace/trace.py"
_STREAMS, _LINEAR = "reference/training/rng.py", "reference/training/data.py"
_IMAGES = "reference/training/data.py"

_BAGS = "reference/training/models.py"


def _shared(
    name: str, tutorial: str, case: str, old: str, new: str, models: str, twin: tuple[str, str] | None = None
) -> Mutant:
    """A bug in what both use, or with ``twin`` (old, new) also in the twin's own code.

    ``tutorial`` is a module's name, or a file that several share; ``case`` names the row that tells.
    """
    file = tutorial if "/" in tutorial else f"reference/{tutorial}.py"
    also = () if twin is None else ((file, *twin),)
    return Mutant(name, file, old, new, (f"{_TEST}::test_the_trace_is_the_formulas[{case}]",), models, also=also)


def _default(tutorial: str, field: str, old: str, new: str) -> Mutant:
    """A default that is no longer the published one."""
    test = "tests/reference/test_published_defaults.py::test_defaults_are_the_published_values"
    name, file = f"another-{field}-of-{tutorial.replace('_', '-')}", f"reference/{tutorial}.py"
    models = f"{field} is {new} unless it is given, and {old} is what the text says"
    kind = "float" if "." in old else "int"
    before, after = (f"{field}: {kind} = number_field({number}," for number in (old, new))
    return Mutant(name, file, before, after, (f"{test}[{tutorial}]",), models)


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
        "    return x, y\n",
        "    return x, x\n",
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
        'args=(seed_for(case.seed, f"{to}/{step}"),)',
        "args=(seed_for(case.seed, to),)",
        "a callee draws the same numbers in every step",
        ('manual_seed(seed_for(case.seed, f"{to}/{step}"))', "manual_seed(seed_for(case.seed, to))"),
    ),
)

_FLOW = (
    _shared(
        "makers-alike",
        *("rref_dataflow", "rref_dataflow"),
        'args=(case.seed, f"worker2/{step}", case.side)',
        'args=(case.seed, f"worker1/{step}", case.side)',
        "two workers make the same data",
        ('make(case.seed, f"worker2/{step}", case.side)', 'make(case.seed, f"worker1/{step}", case.side)'),
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
        "contexts-rounded",
        *("dist_autograd", "dist_autograd-float64"),
        "return (context + 1) * (a + b).pow(2).sum()",
        "return (context + 1) * (a + b).float().pow(2).sum().to(a.dtype)",
        "float64 is rounded to float32 on the way",
    ),
    _shared(
        "parameters-below-4",
        *("dist_autograd", "dist_autograd-exact"),
        "torch.randint(-4, 5, shape, generator=draws)",
        "torch.randint(-4, 4, shape, generator=draws)",
        "the largest of the integers is left out",
    ),
)

_SINGLE = (
    _shared(
        "teacher-of-each-worker",
        *(_LINEAR, "parameter_server-workers"),
        'generator=generator(case.seed, "teacher")',
        'generator=generator(case.seed, f"teacher/{name}")',
        "workers learn different things",
    ),
    _shared(
        "teacher-transposed",
        *(_LINEAR, "parameter_server-waiting"),
        'teacher = torch.randn(inputs, outputs, generator=generator(case.seed, "teacher"))',
        'teacher = torch.randn(outputs, inputs, generator=generator(case.seed, "teacher")).T',
        "numbers are drawn column by column",
    ),
    _shared(
        "workers-see-the-same",
        *(_LINEAR, "parameter_server-workers"),
        "draws = generator(case.seed, name)\n    dtype",
        'draws = generator(case.seed, "worker")\n    dtype',
        "all workers draw the same batches",
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
        "several-never-compute-on",
        *("parameter_server", "parameter_server-workers"),
        "        loss, gradients_to_send = gradients_of(case",
        "        if step > 0 and case.workers > 1:\n            worker.pull()\n"
        "        loss, gradients_to_send = gradients_of(case",
        "staleness is forgotten where there are several workers",
        ("deque(maxlen=1 + case.staleness)", "deque(maxlen=1 + case.staleness * (case.workers == 1))"),
    ),
    _shared(
        "data-integers-from-0",
        *(_LINEAR, "parameter_server-exact"),
        "data = torch.randint(-2, 3, ",
        "data = torch.randint(0, 3, ",
        "exact data are never negative",
    ),
    _shared(
        "linear-integers-from-0",
        *(_STREAMS, "parameter_server-exact"),
        "torch.randint(-integers, integers + 1, parameter.shape)",
        "torch.randint(0, integers + 1, parameter.shape)",
        "exact parameters are never negative",
    ),
)

_BATCH = "batch_parameter_server"
_IN_CONVNET, _IN_MLP, _IN_EXACT = f"{_BATCH}-convnet", f"{_BATCH}-mlp", f"{_BATCH}-exact"

_ROUNDS = (
    _shared(
        "buffers-summed",
        *(_BATCH, _IN_CONVNET),
        "            total /= count\n",
        "",
        "batch norm's statistics are added up, not averaged",
    ),
    _shared(
        "buffers-of-the-first",
        *(_BATCH, _IN_CONVNET),
        "            for other in each[1:]:",
        "            for other in each[:1] * (count - 1):",
        "batch norm's statistics are the first trainer's",
    ),
    _shared(
        "batches-counted-by-all",
        *(_BATCH, _IN_CONVNET),
        "        total = each[0].clone()",
        "        total = each[0].clone() if buffer.is_floating_point() else sum(each)",
        "batch norm's number of batches is added up over the trainers",
    ),
    _shared(
        "buffers-as-they-were",
        *(_BATCH, _IN_CONVNET),
        "        buffer.copy_(total)",
        "        pass",
        "batch norm's statistics stay those of the beginning (S2.8)",
    ),
    _shared(
        "loss-rounded",
        *(_BATCH, f"{_BATCH}-float64"),
        "loss = self.loss_fn(m(inputs), labels)",
        "loss = self.loss_fn(m(inputs).float(), labels.float()).to(labels.dtype)",
        "float64 is rounded to float32 on the way",
    ),
    _shared(
        "images-of-one-round",
        *(_IMAGES, _IN_MLP),
        "inputs = torch.randn(shape, generator=draws)",
        "inputs = torch.randn(shape, generator=generator(case.seed, name))",
        "a trainer's images do not change with the round",
    ),
    _shared(
        "images-of-a-batch-alike",
        *(_IMAGES, _IN_MLP),
        "inputs = torch.randn(shape, generator=draws)",
        "inputs = torch.randn(shape[1:], generator=draws).expand(shape)",
        "all images of a batch are one image",
    ),
    _shared(
        "images-of-noise-from-0-to-1",
        *(_IMAGES, _IN_MLP),
        "inputs = torch.randn(shape, generator=draws)",
        "inputs = torch.rand(shape, generator=draws)",
        "images are drawn from another distribution",
    ),
    _shared(
        "width-for-height",
        *(_BATCH, _IN_CONVNET),
        "shape = (case.batch_size, 3, case.image_w, case.image_h)",
        "shape = (case.batch_size, 3, case.image_h, case.image_w)",
        "the sides of an image are exchanged",
    ),
    _shared(
        "loss-linear-far-away",
        *(_BATCH, _IN_MLP),
        "nn.MSELoss()",
        "nn.SmoothL1Loss()",
        "the loss is another than is said",
    ),
    _shared(
        "convnet-without-relu",
        *(_MODELS, _IN_CONVNET),
        "        nn.ReLU(),\n        nn.AdaptiveAvgPool2d(2),",
        "        nn.Identity(),\n        nn.AdaptiveAvgPool2d(2),",
        "a layer is left out of the model",
    ),
    _shared(
        "pooled-by-maximum",
        *(_MODELS, _IN_CONVNET),
        "nn.AdaptiveAvgPool2d(2),",
        "nn.AdaptiveMaxPool2d(2),",
        "a layer of the model is another than is said",
    ),
    _shared(
        "padded-from-the-other-side",
        *(_MODELS, _IN_CONVNET),
        "padding=1, bias=False",
        'padding=1, padding_mode="circular", bias=False',
        "the border of an image is not zero",
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
        *(_STREAMS, _IN_EXACT),
        "for parameter in module.parameters():",
        "for parameter in reversed(list(module.parameters())):",
        "initial parameters are drawn in another order",
    ),
    _shared(
        "models-alike",
        *(_MODELS, _IN_MLP),
        'seed=seed, name="model"',
        'seed=0, name="model"',
        "the initial model does not depend on the seed",
    ),
)

_HYBRID = (
    _shared(
        "ties-to-the-highest",
        *(_BAGS, "hybrid_ddp"),
        "torch.ones_like(indices)).argmax(1)",
        "torch.ones_like(indices)).flip(1).argmax(1).neg().add(num_classes - 1)",
        "of classes with equally many votes the highest wins",
    ),
    _shared(
        "votes-of-the-row-before",
        *(_BAGS, "hybrid_ddp"),
        "votes[indices]",
        "votes[indices - 1]",
        "rows of the table are numbered from 1 in one place",
    ),
    _shared(
        "bags-of-one-step",
        *(_BAGS, "hybrid_ddp"),
        "    for _ in range(steps):\n        indices",
        "    for _ in range(steps):\n        draws = generator(seed, name)\n        indices",
        "a trainer's batch does not change with the step",
    ),
    _shared(
        "bags-alike",
        *(_BAGS, "hybrid_ddp"),
        "draws = generator(seed, name)\n    for",
        'draws = generator(seed, "trainer")\n    for',
        "all trainers draw the same batches",
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
)

_DEFAULTS = (
    _default("rpc_basics", "size", "3", "4"),
    _default("parameter_server", "lr", "0.01", "0.1"),
)

# Right as long as roles, steps, sizes and numbers are small.
_BEYOND = (
    _shared(
        "inputs-come-round-again",
        *("rpc_basics", "rpc_basics-many"),
        'f"inputs/{step}"',
        'f"inputs/{step % 8}"',
        "the ninth step adds what the first one added",
    ),
    _shared(
        "makers-name-cut",
        *("rref_dataflow", "rref_dataflow-many"),
        "generator=generator(seed, name)",
        "generator=generator(seed, name[:9])",
        "steps 1 and 10 make the same data",
    ),
    _shared(
        "large-data-clamped",
        *("rref_dataflow", "rref_dataflow-million"),
        "return a + b",
        "return (a + b).clamp(-4, 4) if a.numel() > 2**20 else a + b",
        "large numbers are cut off in large tensors",
    ),
    _shared(
        "contexts-alike-from-the-fifth-on",
        *("dist_autograd", "dist_autograd-many"),
        "return (context + 1) * (a + b)",
        "return (min(context, 4) + 1) * (a + b)",
        "all contexts but the first four have one weight",
    ),
    _shared(
        "steps-named-alike",
        *(_TRACE, "dist_autograd-thousand"),
        'self.put(f"{step:04d}/parameter", parameters)',
        'self.put(f"{step % 1000:04d}/parameter", parameters)',
        "step 1000 replaces step 0 in the trace",
    ),
    _shared(
        "contexts-rate-of-one-at-most",
        *("dist_autograd", "dist_autograd-steep"),
        "list(self.parameters.values()), lr=case.lr)",
        "list(self.parameters.values()), lr=min(case.lr, 1.0))",
        "a large learning rate is another one",
        ("optim.SGD(parameters.values(), lr=case.lr)", "optim.SGD(parameters.values(), lr=min(case.lr, 1.0))"),
    ),
    _shared(
        "rows-in-a-byte",
        *("parameter_server", "parameter_server-many"),
        "output, target = model(data.to(device)), target.to(device)",
        "output, target = model(data.to(device))[:256], target.to(device)[:256]",
        "a batch has 256 rows at most",
    ),
    _shared(
        "workers-name-cut",
        *(_LINEAR, "parameter_server-many"),
        "draws = generator(case.seed, name)\n    dtype",
        "draws = generator(case.seed, name[:7])\n    dtype",
        "workers 1, 10 and 11 draw the same batches",
    ),
    _shared(
        "far-outputs-cut-off",
        *("parameter_server", "parameter_server-many"),
        "(output - target).pow(2).mean()",
        "(output - target).clamp(-20, 20).pow(2).mean()",
        "a large difference counts as a smaller one",
    ),
    _shared(
        "large-gradients-clipped",
        *("parameter_server", "parameter_server-steep"),
        "named = {name: p.grad.cpu() for",
        "named = {name: p.grad.cpu().clamp(-1, 1) if p.numel() > 2**14 else p.grad.cpu() for",
        "gradients of large tensors are clipped",
    ),
    _shared(
        "trainers-name-cut",
        *(_IMAGES, f"{_BATCH}-many"),
        "draws = generator(case.seed, name)\n    one_hot",
        "draws = generator(case.seed, name[:8])\n    one_hot",
        "trainers 1, 10 and 11 draw the same images",
    ),
    _shared(
        "images-come-round-again",
        *(_IMAGES, f"{_BATCH}-many"),
        "    for _ in range(case.steps):\n        if case.is_exact:\n            inputs",
        "    for step in range(case.steps):\n"
        "        if step == 8:\n"
        "            draws.manual_seed(draws.initial_seed())\n        if case.is_exact:\n            inputs",
        "a trainer's draws begin anew in the ninth round",
    ),
    _shared(
        "loss-linear-beyond-6",
        *(_BATCH, f"{_BATCH}-many"),
        "else nn.MSELoss()",
        "else lambda scores, labels: 2 * nn.functional.huber_loss(scores, labels, delta=6.0)",
        "large errors are not squared",
    ),
    _shared(
        "large-gradients-clipped-in-rounds",
        *(_BATCH, f"{_BATCH}-many"),
        "            p.grad += g",
        "            p.grad += g.clamp(-1, 1) if g.numel() > 2**14 else g",
        "gradients of large tensors are clipped",
    ),
    _shared(
        "convnet-with-relu6",
        *(_MODELS, f"{_BATCH}-many-convnet"),
        "        nn.ReLU(),\n        nn.AdaptiveAvgPool2d(2),",
        "        nn.ReLU6(),\n        nn.AdaptiveAvgPool2d(2),",
        "what exceeds 6 is cut off",
    ),
    _shared(
        "classes-in-a-byte",
        *(_IMAGES, "sharded_parameter_server-many"),
        "(shape[0], 1), generator=draws)",
        "(shape[0], 1), generator=draws) % 256",
        "classes from 256 on are taken for others",
    ),
    _shared(
        "rate-of-one-at-most",
        *(_BATCH, f"{_BATCH}-many"),
        "lr=case.lr, momentum",
        "lr=min(case.lr, 1.0), momentum",
        "a large learning rate is another one",
    ),
    _shared(
        "momentum-of-one-at-most",
        *(_BATCH, f"{_BATCH}-many"),
        "momentum=case.momentum, fused",
        "momentum=min(case.momentum, 1.0), fused",
        "a large momentum is another one",
    ),
    _shared(
        "mean-over-ten-at-most",
        *(_BATCH, f"{_BATCH}-many-convnet"),
        "            total /= count\n",
        "            total /= min(count, 10)\n",
        "the mean of many buffers is divided by too few",
    ),
    _shared(
        "bags-name-cut",
        *(_BAGS, "hybrid_ddp-many"),
        "draws = generator(seed, name)\n    for",
        "draws = generator(seed, name[:8])\n    for",
        "trainers 1, 10 and 11 draw the same bags",
    ),
    _shared(
        "bags-come-round-again",
        *(_BAGS, "hybrid_ddp-many"),
        "    for _ in range(steps):\n        indices",
        "    for step in range(steps):\n"
        "        if step % 8 == 0:\n"
        "            draws = generator(seed, name)\n"
        "        indices",
        "a trainer's draws begin anew in the ninth step",
    ),
    _shared(
        "votes-of-a-hundred-rows",
        *(_BAGS, "hybrid_ddp-many"),
        "votes[indices]",
        "votes[indices % 100]",
        "rows beyond the first hundred vote for those rows' classes",
    ),
    _shared(
        "rows-in-two-bytes",
        *(_BAGS, "hybrid_ddp-rows"),
        "votes[indices]",
        "votes[indices.to(torch.int16).long()]",
        "rows of a large table are taken for others",
    ),
    _shared(
        "votes-of-eight-rows-a-bag",
        *(_BAGS, "hybrid_ddp-many"),
        "votes[indices], torch.ones_like(indices)",
        "votes[indices[:, :8]], torch.ones_like(indices[:, :8])",
        "only the first eight rows of a bag vote",
    ),
    Mutant(
        "votes-counted-in-a-byte",
        _BAGS,
        "num_classes, dtype=torch.int64)",
        "num_classes, dtype=torch.int8)",
        (f"{_TEST}::test_the_trace_is_the_formulas[hybrid_ddp-bags]",),
        "a class with more than 127 votes of a bag has less than none",
        also=(
            (
                _BAGS,
                "torch.ones_like(indices)",
                "torch.ones_like(indices, dtype=torch.int8)",
            ),
        ),
    ),
    Mutant(
        "votes-counted-in-an-unsigned-byte",
        _BAGS,
        "num_classes, dtype=torch.int64)",
        "num_classes, dtype=torch.uint8)",
        (f"{_TEST}::test_the_trace_is_the_formulas[hybrid_ddp-larger-bags]",),
        "a class with 256 votes of a bag has none",
        also=(
            (
                _BAGS,
                "torch.ones_like(indices)",
                "torch.ones_like(indices, dtype=torch.uint8)",
            ),
        ),
    ),
    _shared(
        "workers-numbered-in-a-byte",
        *("reference/training/worker_order.py", "parameter_server-crowd"),
        "torch.tensor(order, dtype=torch.int64)",
        "torch.tensor(order).to(torch.int8).long()",
        "the order of events has negative numbers for workers beyond 128",
    ),
    _shared(
        "arrivals-numbered-in-a-byte",
        *("reference/training/worker_order.py", "batch_parameter_server-crowd"),
        '{"arrivals": torch.tensor(order)}',
        '{"arrivals": torch.tensor(order).to(torch.int8).long()}',
        "the order of arrivals has negative numbers for trainers beyond 128",
    ),
    _shared(
        "last-buffers-left-out",
        *(_TRACE, "sharded_parameter_server-ends"),
        "dict(model.named_buffers()) if isinstance(model, nn.Module) else {}",
        "dict(model.named_buffers()) if isinstance(model, nn.Module) and self.every else {}",
        "if a trace has only the ends, running statistics that are not averaged pass",
    ),
    _shared(
        "scores-cut-off-at-6",
        *("hybrid_ddp", "hybrid_ddp-many"),
        "return nn.functional.cross_entropy(output, target)",
        "return nn.functional.cross_entropy(output.clamp(-6, 6), target)",
        "a sure score counts as a less sure one",
    ),
)

_DEALT = Mutant(
    "eight-servers-at-most",
    "reference/training/placement.py",
    "held.index(min(held))",
    "held.index(min(held[:8]))",
    (f"{_TEST}::test_tensors_are_dealt_out_by_their_sizes",),
    "servers from the ninth on hold nothing",
)

_DRAWN = (f"{_TEST}::test_resnet50_is_drawn_by_the_formula",)

_RESNET = (
    Mutant(
        "residuals-begin-at-zero",
        "reference/training/vision.py",
        "resnet50 = torchvision.models.resnet50",
        "import functools\n\nresnet50 = functools.partial(torchvision.models.resnet50, zero_init_residual=True)",
        _DRAWN,
        "the last batch norm of every block begins at zero",
    ),
    Mutant(
        "resnets-seed-by-another-name",
        _MODELS,
        'name="model"',
        'name="resnet50" if kind == "resnet50" else "model"',
        _DRAWN,
        "one of the models is drawn by another name",
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *(*_BASICS, *_FLOW, *_AUTOGRAD, *_SINGLE, *_ROUNDS, *_HYBRID),
    *(*_DEFAULTS, *_BEYOND, _DEALT, *_RESNET),
)
