"""Crashes: targets of a shape, type or range that a loss does not take."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "sigmoid_was_removed",
        "the model gives raw scores since a cell was changed, the loss wants probabilities",
        kind="loss_target",
        style="notebook_cells",
        source="discuss.pytorch.org, all elements of input should be between 0 and 1",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(64, 4) * 3
y = (x[:, :1] * x[:, 1:2] > 0).float()
# %%
model = nn.Sequential(
    nn.Linear(4, 32),
    nn.ReLU(),
    nn.Linear(32, 1),
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
# %%
criterion = nn.BCELoss()
# %%
for epoch in range(3):
    probabilities = model(x)
    loss = criterion(probabilities, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("criterion = nn.BCELoss()", "criterion = nn.BCEWithLogitsLoss()"),),
        line=(
            "criterion = nn.BCELoss()",
            "nn.Linear(32, 1),",
            "probabilities = model(x)",
            "loss = criterion(probabilities, y)",
        ),
        says=("sigmoid|bcewithlogits|binary_cross_entropy_with_logits",),
    ),
    crash(
        "masks_keep_channel",
        "the masks of a segmentation have an axis of one channel like the images",
        kind="loss_target",
        style="lightning_like",
        source="Stack Overflow, only batches of spatial targets supported (3D tensors) but got targets of dimension: 4",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Cells(Dataset):
    def __init__(self, n=8):
        self.images = torch.rand(n, 1, 16, 16)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = self.images[i]
        return image, (image > 0.5).long()


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 2, 1))

    def training_step(self, batch, index):
        images, masks = batch
        return nn.functional.cross_entropy(self.net(images), masks)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


torch.manual_seed(0)
module = Segmenter()
optimizer = module.configure_optimizers()
for index, batch in enumerate(DataLoader(Cells(), batch_size=2)):
    optimizer.zero_grad()
    module.training_step(batch, index).backward()
    optimizer.step()
""",
        repair=(("cross_entropy(self.net(images), masks)", "cross_entropy(self.net(images), masks.squeeze(1))"),),
        line=("cross_entropy(self.net(images), masks)", "return image, (image > 0.5).long()"),
        says=("masks", "squeeze|[:, 0]|[0]|channel"),
    ),
    crash(
        "scale_of_policy_negative",
        "a policy gives its standard deviation without making it positive",
        kind="loss_target",
        style="trainer",
        source="Stack Overflow, Expected parameter scale of distribution Normal to satisfy the constraint GreaterThan",
        program="""
import torch
from torch import nn
from torch.distributions import Normal


class Policy(nn.Module):
    def __init__(self, n_states=3, n_actions=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_states, 16), nn.Tanh())
        self.out = nn.Linear(16, 2 * n_actions)

    def forward(self, states):
        mean, spread = self.out(self.body(states)).chunk(2, dim=-1)
        return Normal(mean, spread)


class Reinforce:
    def __init__(self, policy):
        self.policy = policy
        self.optimizer = torch.optim.Adam(policy.parameters())

    def step(self, states):
        distribution = self.policy(states)
        actions = distribution.sample()
        rewards = -(actions - states[:, :2]).pow(2).sum(dim=1)
        loss = -(distribution.log_prob(actions).sum(dim=1) * rewards).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Reinforce(Policy())
for _ in range(3):
    trainer.step(torch.randn(12, 3))
""",
        repair=(("Normal(mean, spread)", "Normal(mean, nn.functional.softplus(spread) + 1e-4)"),),
        line=(
            "return Normal(mean, spread)",
            "mean, spread = self.out(self.body(states)).chunk(2, dim=-1)",
            "self.out = nn.Linear(16, 2 * n_actions)",
        ),
        says=("softplus|exp(|.exp|exponent|clamp|positive", "spread"),
    ),
    crash(
        "one_hot_of_integers",
        "the classes are turned to one-hot vectors of integers for CrossEntropyLoss",
        kind="loss_target",
        style="custom_parts",
        source="Stack Overflow, Expected floating point type for target with class probabilities, got Long",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Flowers(Dataset):
    def __init__(self, n=30, classes=3):
        self.x = torch.rand(n, 4)
        labels = (self.x[:, 0] * classes).long()
        self.y = nn.functional.one_hot(labels, classes)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 10), nn.Tanh(), nn.Linear(10, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for inputs, targets in DataLoader(Flowers(), batch_size=6):
    loss = criterion(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("self.y = nn.functional.one_hot(labels, classes)", "self.y = labels"),),
        line=("self.y = nn.functional.one_hot(labels, classes)", "loss = criterion(model(inputs), targets)"),
        says=("one-hot|one_hot|onehot|argmax|class indices|float()", "targets"),
    ),
)
