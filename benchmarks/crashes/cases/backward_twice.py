"""Crashes: backward through a graph that was freed."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "discriminator_not_detached",
        "the discriminator differentiates through the generator",
        kind="backward_twice",
        style="trainer",
        source="Stack Overflow, GAN backward through the graph a second time",
        program="""
import torch
from torch import nn


class GAN:
    def __init__(self):
        self.g = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
        self.d = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=1e-3)
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=1e-3)
        self.bce = nn.BCEWithLogitsLoss()

    def step(self, real):
        n = len(real)
        fake = self.g(torch.randn(n, 4))
        d_loss = self.bce(self.d(real), torch.ones(n, 1)) + self.bce(self.d(fake), torch.zeros(n, 1))
        self.opt_d.zero_grad()
        d_loss.backward()
        self.opt_d.step()

        g_loss = self.bce(self.d(fake), torch.ones(n, 1))
        self.opt_g.zero_grad()
        g_loss.backward()
        self.opt_g.step()


torch.manual_seed(0)
gan = GAN()
for _ in range(3):
    gan.step(torch.randn(12, 2) + 3)
""",
        repair=(("self.d(fake), torch.zeros(n, 1)", "self.d(fake.detach()), torch.zeros(n, 1)"),),
        says=("fake", "detach"),
    ),
    crash(
        "two_losses_one_graph",
        "two losses share a hidden layer and are differentiated one after the other",
        kind="backward_twice",
        style="hand_written_model",
        source="discuss.pytorch.org, two backward calls",
        program="""
import torch
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(6, 20)
        self.kind = nn.Linear(20, 3)
        self.size = nn.Linear(20, 1)

    def forward(self, x):
        h = torch.sigmoid(self.shared(x))
        return self.kind(h), self.size(h).squeeze(1)


torch.manual_seed(0)
model = TwoHeads()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(15, 6)
    kind, size = model(x)
    loss_kind = nn.functional.cross_entropy(kind, torch.randint(3, (15,)))
    loss_size = nn.functional.mse_loss(size, x.norm(dim=1))
    optimizer.zero_grad()
    loss_kind.backward()
    loss_size.backward()
    optimizer.step()
""",
        repair=(("    loss_kind.backward()\n    loss_size.backward()\n", "    (loss_kind + loss_size).backward()\n"),),
        line=("loss_kind.backward()", "loss_size.backward()"),
        says=("loss_kind|loss_size|two losses|both losses",),
    ),
    crash(
        "state_kept_in_module",
        "the module keeps its state with its graph between the steps",
        kind="backward_twice",
        style="lightning_like",
        source="discuss.pytorch.org, stateful recurrent module",
        program="""
import torch
from torch import nn


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, 10)
        self.out = nn.Linear(10, 1)
        self.memory = torch.zeros(6, 10)

    def forward(self, x):
        self.memory = self.cell(x, self.memory)
        return self.out(self.memory)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.mse_loss(self(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
module = Stateful()
optimizer = module.configure_optimizers()
for i in range(4):
    x = torch.randn(6, 2)
    loss = module.training_step((x, x.sum(1, keepdim=True)), i)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("self.cell(x, self.memory)", "self.cell(x, self.memory.detach())"),),
        says=("memory", "detach"),
    ),
    crash(
        "style_features_with_graph",
        "the features of the style image are computed once and keep their graph",
        kind="backward_twice",
        style="notebook_cells",
        source="GitHub pull request, style transfer: features of the style image computed anew",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
extractor = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 8, 3), nn.ReLU())
style = torch.rand(1, 3, 12, 12)
picture = torch.rand(1, 3, 12, 12).requires_grad_()
# %%
def gram(maps):
    flat = maps.flatten(2)
    return flat @ flat.transpose(1, 2) / flat.shape[2]


style_gram = gram(extractor(style))
# %%
optimizer = torch.optim.Adam([picture], lr=0.05)
for step in range(4):
    loss = nn.functional.mse_loss(gram(extractor(picture)), style_gram)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("style_gram = gram(extractor(style))", "style_gram = gram(extractor(style)).detach()"),),
        says=("style_gram", "detach|no_grad"),
    ),
)
