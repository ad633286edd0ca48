"""Programs that raise are explained with edits with which they run and train."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

import nbdebug
from nbdebug.source.edits import apply_edits
from tests.crashes.programs import raise_from

STEP = "opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
NET = "net = nn.Linear(4, 2)\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"

GRAPHS = {
    "sum of all losses": f"{NET}total = 0\nfor _ in range(3):\n    loss = net(torch.randn(5, 4)).mean()\n"
    "    total += loss\n    opt.zero_grad()\n    total.backward()\n    opt.step()\n",
    "features made once": "body = nn.Sequential(nn.Linear(4, 4), nn.Tanh())\n"
    f"{NET}x = body(torch.randn(5, 4))\nfor _ in range(3):\n    loss = net(x).pow(2).mean()\n    {STEP}",
    "weights made once": "w = torch.randn(4, 2, requires_grad=True)\nopt = torch.optim.SGD([w], lr=0.1)\n"
    f"unit = F.normalize(w, dim=0)\nfor _ in range(3):\n    loss = (torch.randn(5, 4) @ unit).mean()\n    {STEP}",
    "numbers inside a loss": f"def total(out):\n    a = out.pow(2).mean().item()\n    return torch.tensor(a + 1)\n"
    f"{NET}for _ in range(3):\n    loss = total(net(torch.randn(5, 4)))\n    {STEP}",
    "gradient without a graph": f"{NET}for _ in range(3):\n    x = torch.randn(5, 4).requires_grad_()\n"
    f"    (g,) = torch.autograd.grad(net(x).tanh().sum(), x)\n    loss = g.pow(2).mean()\n    {STEP}",
    "everything frozen": "body, net = nn.Linear(4, 4), nn.Linear(4, 2)\nmodel = nn.Sequential(body, net)\n"
    "for p in model.parameters():\n    p.requires_grad = False\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    f"for _ in range(3):\n    loss = model(torch.randn(5, 4)).mean()\n    {STEP}",
    "states written into a tensor": "cell = nn.RNNCell(3, 5)\nopt = torch.optim.SGD(cell.parameters(), lr=0.1)\n"
    "for _ in range(3):\n    x, states = torch.randn(4, 2, 3), torch.zeros(5, 2, 5)\n    for t in range(4):\n"
    f"        states[t + 1] = cell(x[t], states[t])\n    loss = states.pow(2).mean()\n    {STEP}",
    "step between two backward passes": "a, b = nn.Linear(4, 2), nn.Linear(2, 1)\n"
    "oa, ob = torch.optim.SGD(a.parameters(), lr=0.1), torch.optim.SGD(b.parameters(), lr=0.1)\n"
    "for _ in range(3):\n    h = a(torch.randn(5, 4))\n    first = -b(h).mean()\n"
    "    second = b(h.detach()).pow(2).mean()\n    second.backward()\n    ob.step()\n    first.backward()\n"
    "    oa.step()\n",
    "logarithm of zero": f"torch.autograd.set_detect_anomaly(True)\n{NET}for _ in range(3):\n"
    f"    p = net(torch.randn(5, 4)).relu()\n    loss = (p * torch.log(p)).mean()\n    {STEP}",
}
SHAPES = {
    "linear layers behind the one that changes": "class Net(nn.Module):\n    def __init__(self):\n"
    "        super().__init__()\n        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 2)\n"
    "    def forward(self, x):\n        return self.b(F.relu(self.a(x.flatten(1))))\n"
    "net = Net()\nloss = net(torch.randn(5, 2, 4)).mean()\nloss.backward()\n",
    "hidden state with the batch first": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.rnn = nn.LSTM(3, 4, 2, batch_first=True)\n    def start(self, n):\n        shape = (n, 2, 4)\n"
    "        return torch.zeros(shape), torch.zeros(shape)\n    def forward(self, x):\n"
    "        return self.rnn(x, self.start(len(x)))[0]\nNet()(torch.randn(5, 6, 3)).mean().backward()\n",
    "output of a recurrent layer in a Sequential": "net = nn.Sequential(\n"
    "    nn.Embedding(9, 3), nn.GRU(3, 4), nn.Linear(4, 2))\n"
    "net(torch.randint(9, (5, 6))).mean().backward()\n",
    "one image for a network with statistics": "net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())\n"
    "net(torch.rand(2, 3, 8, 8)).mean().backward()\nnet.eval()\nnet(torch.rand(3, 8, 8))\n",
    "letters of an einsum": "q, k = torch.randn(2, 3, 4), torch.randn(2, 3, 4)\n"
    "s = torch.einsum('bqk,bks->bqs', q, k)\ns.softmax(-1) @ k\n",
    "heads that do not divide": "class Split(nn.Module):\n    def __init__(self, heads):\n        super().__init__()\n"
    "        self.heads, self.query = heads, nn.Linear(10, 10)\n    def forward(self, x):\n"
    "        b, n, d = x.shape\n        return self.query(x).view(b, n, self.heads, d // self.heads)\n"
    "Split(heads=4)(torch.randn(2, 3, 10))\n",
    "decoder with larger maps": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.down = nn.Conv2d(1, 4, 3, stride=2, padding=1)\n"
    "        self.up = nn.ConvTranspose2d(4, 1, 3, stride=2)\n    def forward(self, x):\n"
    "        return self.up(self.down(x))\nnet, x = Net(), torch.rand(2, 1, 8, 8)\n"
    "loss = F.mse_loss(net(x), x)\nloss.backward()\n",
    "groups that do not divide": "nn.GroupNorm(4, 6)\n",
    "weights of other classes": f"{NET}weight = torch.bincount(torch.tensor([0, 0])).float()\n"
    "F.cross_entropy(net(torch.randn(3, 4)), torch.tensor([0, 1, 0]), weight=weight)\n",
}
DATA = {
    "samples of unlike lengths": "from torch.utils.data import DataLoader\n"
    "data = [(torch.ones(1 + i % 3), i % 2) for i in range(6)]\n"
    "for x, y in DataLoader(data, batch_size=3):\n    pass\n",
    "samples that are None": "from torch.utils.data import DataLoader\n"
    "data = [(torch.ones(2), i) if i % 4 else None for i in range(8)]\n"
    "for x, y in DataLoader(data, batch_size=4):\n    pass\n",
    "sampler and shuffle": "from torch.utils.data import DataLoader, RandomSampler\ndata = torch.arange(6)\n"
    "DataLoader(data, shuffle=True, sampler=RandomSampler(data))\n",
    "scheduler of a model": f"{NET}torch.optim.lr_scheduler.StepLR(net, 2)\n",
    "layers of other sizes in a checkpoint": f"{NET}state = nn.Linear(4, 3).state_dict()\nnet.load_state_dict(state)\n",
}


@pytest.mark.parametrize("program", [*(GRAPHS | SHAPES | DATA).values()], ids=[*GRAPHS, *SHAPES, *DATA])
def test_edits_of_first_finding_let_program_run(tmp_path: Path, program: str) -> None:
    error, _, path = raise_from(tmp_path, program)
    report = nbdebug.explain_error(error)
    assert report.not_checked == ()
    source = apply_edits(path.read_text(), report.findings[0].edits)
    changed = tmp_path / "changed.py"
    changed.write_text(source)
    linecache.checkcache()
    exec(compile(source, str(changed), "exec"), {"__name__": "changed"})


def test_change_of_passed_value_is_offered_where_dataset_makes_it(tmp_path: Path) -> None:
    program = (
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Images(Dataset):\n    def __init__(self):\n        self.images = torch.rand(6, 8, 8, 3)\n"
        "    def __len__(self):\n        return 6\n    def __getitem__(self, i):\n"
        "        return self.images[i], i % 2\n"
        "net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))\n"
        "def step(x, y):\n    return F.cross_entropy(net(x), y)\n"
        "for x, y in DataLoader(Images(), batch_size=3):\n    step(x, y).backward()\n"
    )
    error, _, _ = raise_from(tmp_path, program)
    finding = nbdebug.explain_error(error).findings[0]
    assert finding.fix == "return self.images[i].movedim(-1, 0), i % 2"


def test_search_finds_same_change_on_slow_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "a, b = torch.randn(5, 3, 1), torch.randn(5, 4)\nF.softmax(torch.cat([a.mean(1, keepdim=True), b], dim=1), 1)\n"
    )
    error, _, _ = raise_from(tmp_path, program)
    ticks = iter(range(1_000_000))
    expected = nbdebug.explain_error(error).findings[0].fix
    monkeypatch.setattr("nbdebug.crashes.trials.time.perf_counter", lambda: float(next(ticks)))
    assert nbdebug.explain_error(error).findings[0].fix == expected
