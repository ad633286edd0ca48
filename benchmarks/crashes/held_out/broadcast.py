"""Crashes: operands whose shapes do not broadcast."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "channel_mean_without_axes",
        "the means of the channels are subtracted along the width",
        kind="broadcast",
        style="script",
        source="Stack Overflow, The size of tensor a (32) must match the size of tensor b (3)",
        program="""
import torch
from torch import nn

torch.manual_seed(0)
mean = torch.tensor([0.485, 0.456, 0.406])
std = torch.tensor([0.229, 0.224, 0.225])
model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 10 * 10, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    images, labels = torch.rand(8, 3, 10, 10), torch.randint(2, (8,))
    images = (images - mean[None, :]) / std[None, :, None, None]
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("mean[None, :])", "mean[None, :, None, None])"),),
        says=("mean", "10", "3"),
    ),
    crash(
        "bmm_without_transpose",
        "queries and keys are multiplied without a transposition",
        kind="broadcast",
        style="hand_written_model",
        source="discuss.pytorch.org, Expected size for first two dimensions of batch2 tensor",
        program="""
import torch
from torch import nn


class DotAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = nn.Linear(dim, dim)

    def forward(self, decoder_state, encoder_states):
        query = self.query(decoder_state).unsqueeze(1)
        scores = torch.bmm(query, encoder_states)
        context = torch.bmm(torch.softmax(scores, dim=-1), encoder_states)
        return context.squeeze(1)


torch.manual_seed(0)
attention, head = DotAttention(10), nn.Linear(10, 5)
optimizer = torch.optim.Adam([*attention.parameters(), *head.parameters()])
for _ in range(3):
    context = attention(torch.randn(6, 10), torch.randn(6, 8, 10))
    loss = nn.functional.cross_entropy(head(context), torch.randint(5, (6,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("torch.bmm(query, encoder_states)", "torch.bmm(query, encoder_states.transpose(1, 2))"),),
        says=("8", "10", "transpos"),
    ),
    crash(
        "einsum_of_unlike_axes",
        "einsum gives one letter to two axes of different sizes",
        kind="broadcast",
        style="functional",
        source="Stack Overflow, einsum(): subscript has size which does not broadcast",
        program="""
import torch
import torch.nn.functional as F

torch.manual_seed(0)
core = (torch.randn(4, 6, 3) * 0.2).requires_grad_()


def bilinear(left, right):
    return torch.einsum("bi,ijk,bi->bk", left, core, right)


optimizer = torch.optim.SGD([core], lr=0.1)
for _ in range(3):
    left, right, labels = torch.randn(9, 4), torch.randn(9, 6), torch.randint(3, (9,))
    loss = F.cross_entropy(bilinear(left, right), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(('"bi,ijk,bi->bk"', '"bi,ijk,bj->bk"'),),
        says=(
            "4",
            "6",
            "right|bj|letter|ijk",
        ),
    ),
    crash(
        "sample_weights_as_row",
        "weights per sample are multiplied along the classes",
        kind="broadcast",
        style="custom_parts",
        source="discuss.pytorch.org, weighting a loss matrix",
        program="""
import torch
from torch import nn


class WeightedBCE(nn.Module):
    def forward(self, logits, targets, sample_weight):
        losses = nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        return (losses * sample_weight).mean()


torch.manual_seed(0)
model, criterion = nn.Linear(7, 4), WeightedBCE()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(3):
    x = torch.randn(20, 7)
    loss = criterion(model(x), (x[:, :4] > 0).float(), torch.rand(20))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("losses * sample_weight", "losses * sample_weight.unsqueeze(1)"),),
        line=("losses * sample_weight", "torch.rand(20))"),
        says=("sample_weight|weight", "20", "4"),
    ),
)
