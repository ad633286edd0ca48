"""Crashes: own autograd functions, checkpoints, torch.func and vmap, inference mode."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "function_forgets_a_gradient",
        "the backward of an own function gives one gradient for two inputs",
        kind="functions",
        style="custom_parts",
        source="discuss.pytorch.org, function returned an incorrect number of gradients (expected 2, got 1)",
        program="""
import torch
from torch import nn


class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        ctx.save_for_backward(x)
        return (x.clamp(0, 1) * (levels - 1)).round() / (levels - 1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ((x >= 0) & (x <= 1))


class QuantizedNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 10), nn.Linear(10, 2)

    def forward(self, x):
        return self.last(Quantize.apply(self.first(x), 8))


torch.manual_seed(0)
model = QuantizedNet()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(6, 4)), torch.randint(2, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("return grad * ((x >= 0) & (x <= 1))", "return grad * ((x >= 0) & (x <= 1)), None"),),
        line=("return grad * ((x >= 0) & (x <= 1))", "def backward(ctx, grad):"),
        says=("none", "levels|2|two|quantize"),
    ),
    crash(
        "accuracy_item_inside_vmap",
        "an ensemble is mapped over its members, and each member asks for a number",
        kind="functions",
        style="functional",
        source="GitHub issue, functorch, vmap: It looks like you're calling .item() on a Tensor",
        program="""
import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap


def make_member():
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


def member_loss(params, x, y):
    error = (functional_call(base, params, (x,)) - y).abs().mean()
    if error > 1:
        return error
    return error**2


torch.manual_seed(0)
members = [make_member() for _ in range(4)]
base = make_member().to("meta")
params, _ = stack_module_state(members)
optimizer = torch.optim.Adam(params.values())
for _ in range(3):
    x = torch.randn(20, 3)
    loss = vmap(member_loss, in_dims=(0, None, None))(params, x, x.sum(1, keepdim=True)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "    if error > 1:\n        return error\n    return error**2\n",
                "    return torch.where(error > 1, error, error**2)\n",
            ),
        ),
        line=("if error > 1:",),
        says=("vmap", "torch.where|where("),
    ),
    crash(
        "per_sample_loss_not_scalar",
        "torch.func.grad takes a loss that keeps an axis",
        kind="functions",
        style="typed",
        source="GitHub issue, Expected f to return tensor with 0-dim, per-sample gradients",
        program="""
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap


def sample_loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    scores = functional_call(model, params, (x.unsqueeze(0),))
    return nn.functional.mse_loss(scores, y.unsqueeze(0), reduction="none").mean(dim=1)


def clipped(gradients: Tensor, norm: float) -> Tensor:
    scale = norm / gradients.flatten(1).norm(dim=1).clamp(min=norm)
    return torch.einsum("b,b...->...", scale, gradients) / len(gradients)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(12, 4)
    y = x.sum(dim=1, keepdim=True)
    params = {name: p.detach() for name, p in model.named_parameters()}
    per_sample = vmap(grad(sample_loss), in_dims=(None, 0, 0))(params, x, y)
    nn.functional.mse_loss(model(x), y).backward()
    for name, p in model.named_parameters():
        p.grad = clipped(per_sample[name], norm=1.0)
    optimizer.step()
""",
        repair=(('reduction="none").mean(dim=1)', 'reduction="none").mean()'),),
        line=('reduction="none").mean(dim=1)',),
        says=("scalar|single number|one number|0-dim|no axes", "mean()|sum()|squeeze|mean(dim=1)|[0]|sample_loss"),
    ),
    crash(
        "features_of_inference_mode",
        "the features of a frozen network are made in inference mode and used for training",
        kind="functions",
        style="lightning_like",
        source="GitHub issue, Inference tensors cannot be saved for backward",
        program="""
import torch
from torch import nn


class FeatureExtractor:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(10, 16), nn.ReLU()).eval()

    @torch.inference_mode()
    def __call__(self, x):
        return self.net(x)


class LinearProbe(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.extract = FeatureExtractor()
        self.head = nn.Linear(16, classes)

    def training_step(self, batch):
        x, labels = batch
        return nn.functional.cross_entropy(self.head(self.extract(x)), labels)

    def configure_optimizers(self):
        return torch.optim.Adam(self.head.parameters())


torch.manual_seed(0)
module = LinearProbe()
optimizer = module.configure_optimizers()
for _ in range(3):
    loss = module.training_step((torch.randn(8, 10), torch.randint(3, (8,))))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("@torch.inference_mode()", "@torch.no_grad()"),),
        line=("@torch.inference_mode()", "self.head(self.extract(x))"),
        says=("inference_mode|inference mode", "no_grad|clone()", "extract|__call__"),
    ),
    crash(
        "checkpoint_recomputes_other_branch",
        "a checkpointed block takes another branch when it is computed again",
        kind="functions",
        style="hand_written_model",
        source="GitHub issue, torch.utils.checkpoint: A different number of tensors was saved",
        program="""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.body, self.calls = nn.Linear(dim, dim), 0

    def forward(self, x):
        self.calls += 1
        y = self.body(x).relu()
        if self.calls % 2:
            y = nn.functional.dropout(y, 0.1)
        return x + y


class Deep(nn.Module):
    def __init__(self, dim=12, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList([Block(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 2)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


torch.manual_seed(0)
model = Deep()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    loss = nn.functional.cross_entropy(model(torch.randn(5, 12)), torch.randint(2, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("if self.calls % 2:", "if self.training:"),),
        line=("if self.calls % 2:", "self.calls += 1", "x = checkpoint(block, x, use_reentrant=False)"),
        says=("checkpoint", "recomput|again|second time|twice", "self.calls|self.training|dropout|branch"),
    ),
)
