"""Tests of causes that lie in helpers, functions of autograd, sizes of makers, and what loaders and losses allow."""

from __future__ import annotations

from pathlib import Path

import pytest

import nbdebug
from nbdebug.source.edits import apply_edits
from tests.crashes.programs import raise_from

FUNCTION = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shift, factor):
        return x * factor + shift
    @staticmethod
    def backward(ctx, grad):
        return {returned}
x, shift = torch.randn(4, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
Scale.apply(x, shift, 2.0).sum().backward()
"""
STEPS = """
a, b = nn.Linear(2, 3), nn.Linear(3, 1)
opt_a, opt_b = torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.SGD(b.parameters(), lr=0.1)
def update(optimizer, loss):
    loss.backward()
    optimizer.step()
def learn(x):
    first = b(a(x).detach()).mean()
    second = b(a(x)).square().mean()
    update(opt_b, first)
    update(opt_a, second)
learn(torch.randn(4, 2))
"""
SHARED = """
g, d = nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
opt_g, opt_d = torch.optim.SGD(g.parameters(), lr=0.1), torch.optim.SGD(d.parameters(), lr=0.1)
def train_d(made):
    d(made).mean().backward()
    opt_d.step()
def train_g(made):
    opt_g.zero_grad()
    d(made).mean().backward()
    opt_g.step()
def step(x):
    made = g(x).tanh()
    train_d(made)
    train_g(made)
step(torch.randn(4, 2))
"""
TOKEN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.count, self.token = 7, nn.Parameter(torch.zeros(1, 1, 4))
    def forward(self, x):
        token = self.token.expand(self.count, -1, -1)
        return torch.cat([token, x], dim=1)
Net()(torch.randn(3, 5, 4)).sum().backward()
"""
TUPLE = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 2, 1)
    def forward(self, sound):
        return self.conv(sound.transpose(1, 2))
Net()((torch.randn(4, 5, 3), torch.tensor([5, 4, 3, 2])))
"""
CARRIED = """
from torch.utils.data import DataLoader
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.state = nn.GRU(2, 3, batch_first=True), None
    def forward(self, x):
        out, state = self.rnn(x, self.state)
        self.state = state.detach()
        return out
net = Net()
for x in DataLoader(torch.randn(7, 4, 2), batch_size=3):
    net(x).sum().backward()
"""
STREAM = """
from torch.utils.data import DataLoader, IterableDataset
class Stream(IterableDataset):
    def __iter__(self):
        yield from torch.randn(4, 2)
loader = DataLoader(Stream(), shuffle=True)
"""
CLOSURE = """
net = nn.Linear(2, 1)
optimizer = torch.optim.LBFGS(net.parameters())
x = torch.randn(5, 2)
for _ in range(2):
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
"""
REPEATED = """
from torch.utils.checkpoint import checkpoint
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.seen = nn.Linear(3, 3), 0
    def forward(self, x):
        self.seen = self.seen + 1
        return self.linear(x) if self.seen > 1 else self.linear(x).tanh()
block = Block()
checkpoint(block, torch.randn(2, 3, requires_grad=True), use_reentrant=False).sum().backward()
"""
KEPT = """
import copy
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.last = nn.Linear(2, 2), None
    def forward(self, x):
        self.last = self.linear(x)
        return self.last
net = Net()
net(torch.randn(3, 2)).sum().backward()
other = copy.deepcopy(net)
"""
MAPPED = """
def loss(x):
    if x.sum() > 0:
        return x.sum()
    return x.square().sum()
torch.func.vmap(loss)(torch.randn(4, 3, requires_grad=True)).sum().backward()
"""
FEATURES = """
net = nn.Linear(3, 2)
@torch.inference_mode()
def features(x):
    return x * 2
net(features(torch.randn(4, 3))).sum().backward()
"""
HALF = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 4).bfloat16(), nn.Linear(4, 1)
    def forward(self, x):
        return self.head(self.body(x).float())
Net()(torch.randn(2, 3)).sum().backward()
"""
SQUEEZED = """
def scores(body, head, x):
    rows = body(x).squeeze()
    return F.log_softmax(head(rows), dim=1)
body, head = nn.AdaptiveAvgPool1d(1), nn.Linear(3, 2)
for size in (4, 1):
    F.nll_loss(scores(body, head, torch.randn(size, 3, 5)), torch.zeros(size).long()).backward()
"""
# Each program with the code of the finding, a word of the explanation, and the changed line.
PROGRAMS = [
    (FUNCTION.format(returned="grad * 2, grad.sum(dim=0)"), "X1043", "factor", "grad * 2, grad.sum(dim=0), None"),
    (FUNCTION.format(returned="grad * 2, grad.mean(dim=1), None"), "X1043", "shift", "grad.sum(dim=0), None"),
    (FEATURES, "X1044", "features", "@torch.no_grad()"),
    (MAPPED, "X1045", "torch.where", "return torch.where(x.sum() > 0, x.sum(), x.square().sum())"),
    (REPEATED, "X1046", "self.seen", "block(torch.randn(2, 3, requires_grad=True)).sum()"),
    ("net = nn.Linear(3, 3)\nnet.weight = net.weight.t()", "X1047", "leaf", "nn.Parameter(net.weight.t())"),
    ("net, g = nn.Linear(3, 2), torch.ones(3, 2)\nnet.weight.grad = g", "X1047", "transpose", "grad = g.t()"),
    (KEPT, "X1048", "net.last", "net.last = None"),
    ("from torch.utils.data import random_split\nrandom_split(range(10), [7, 2])", "X1049", "10", "len(range(10)) - 7"),
    ("x = torch.randn(4, 9)\na, b = x.split([4, 4], dim=1)", "X1049", "9", "x.shape[1] - 4"),
    (STREAM, "X1051", "Stream", "DataLoader(Stream())"),
    ("s = torch.randn(9)\ntorch.distributions.Normal(0.0, s)", "X1052", "softplus", "softplus(s)"),
    ("p = torch.randn(9)\ntorch.distributions.Bernoulli(p)", "X1052", "sigmoid", "p.sigmoid()"),
    ("nn.Conv1d(2, 3, 7)(torch.randn(1, 2, 5))", "X1053", "smaller", "padding=3"),
    ("nn.ReflectionPad2d(4)(torch.randn(1, 2, 4, 4))", "X1053", "at most 3", "nn.ReplicationPad2d(4)"),
    ("x = torch.randn(2, 3, 16)\nnn.Upsample(scale_factor=2, mode='bilinear')(x)", "X1054", "4 × 4", "unflatten"),
    (TOKEN, "X1005", "self.count = 7", "self.token.expand(x.shape[0], -1, -1)"),
    (CARRIED, "X1008", "last batch", "drop_last=True"),
    (CLOSURE, "X1027", "closure", "optimizer.step(closure)"),
    (SHARED, "X1020", "train_d", "train_d(made.detach())"),
    (STEPS, "X1021", "update(opt_b, first)", "second = b(a(x)).square().mean()"),
    (SQUEEZED, "X1013", "batch of one", "body(x).flatten(1)"),
    (HALF, "X1014", "bfloat16", "self.body(x.bfloat16())"),
    ("losses = [torch.tensor(1.0), torch.tensor(2.0)]\ntorch.cat(losses)", "X1005", "stack", "torch.stack(losses)"),
    (TUPLE, "X1033", "sound.transpose takes a tensor; sound is a tuple", "torch.tensor([5, 4, 3, 2]))[0])"),
]


@pytest.mark.parametrize(("program", "code", "word", "change"), PROGRAMS)
def test_explanation_names_cause_and_its_edits_let_the_program_run(
    tmp_path: Path, program: str, code: str, word: str, change: str
) -> None:
    error, _, path = raise_from(tmp_path, program)
    finding = nbdebug.explain_error(error).findings[0]
    changed = apply_edits(path.read_text(), finding.edits)
    assert finding.code == code
    assert word in str(finding)
    assert change in changed
    exec(compile(changed, str(path), "exec"), {"__name__": "program"})


# Exceptions that resemble those above, of which these rules have nothing to say.
OTHERS = [
    ("net = nn.Linear(3, 3)\nnet.weight = 'no tensor'", "X1047"),
    (
        "import copy\nclass Bad:\n    def __deepcopy__(self, memo):\n        1 / 0\ncopy.deepcopy(Bad())",
        "X1048",
    ),
    ("raise NotImplementedError('this is no module')", "X1028"),
    ("x = torch.randn(4, 9)\nx.split(0, dim=7)", "X1049"),
]


@pytest.mark.parametrize(("program", "code"), OTHERS)
def test_other_exceptions_are_not_explained_by_these_rules(tmp_path: Path, program: str, code: str) -> None:
    error, _, _ = raise_from(tmp_path, program)
    assert code not in [finding.code for finding in nbdebug.explain_error(error).findings]


def test_shapes_of_an_inner_call_are_not_those_of_the_container_around_it(tmp_path: Path) -> None:
    program = """
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.pad = nn.ReflectionPad1d(4)
        def forward(self, x):
            return self.pad(x)
    net = nn.Sequential(Block(), nn.Flatten(), nn.Linear(24, 2))
    loss = F.mse_loss(net(torch.randn(5, 2, 4)), torch.zeros(5, 2))
    """
    error, _, path = raise_from(tmp_path, program)
    finding = nbdebug.explain_error(error).findings[0]
    assert "nn.ReplicationPad1d(4)" in apply_edits(path.read_text(), finding.edits)
    assert finding.trial
