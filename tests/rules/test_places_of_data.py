"""Tests of the line that findings on the data name: the one that makes what is wrong, not the one that passes it on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.rule_findings import rule_findings
from tests.rules.test_places_in_programs import FOOTER, assert_place, build_setup

RARE = "y = (torch.arange(96) % 16 > 9).long() + (torch.arange(96) % 16 > 14)\nmodel = body()\n" + FOOTER
RARE_LOADER = f"{RARE}loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)\n"
POSITIVES = (
    "y = (torch.arange(960) % 16 > 14).float()[:, None]\nx = torch.randn(960, 8) + y\n"
    "loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)\nmodel = nn.Linear(8, 1)\n" + FOOTER
)
SAMPLER = "torch.utils.data.WeightedRandomSampler"

# By code and name: a program whose line with "here" is at fault.
PROGRAMS = {
    "D106 weights of one of two methods": (
        f"{RARE_LOADER}class Counts:\n    def __init__(self, labels):\n        self.counts = torch.bincount(labels)\n"
        "    def by_count(self):\n        weight = self.counts / self.counts.sum()  # here\n"
        "        return nn.CrossEntropyLoss(weight=weight)\n"
        "    def by_inverse(self):\n        return nn.CrossEntropyLoss(weight=(self.counts / 96 + 0.01) ** -0.5)\n"
        "loss_fn = Counts(y).by_count()\n"
    ),
    "D106 weights of a comprehension in one of two functions": (
        f"{RARE_LOADER}def rising(labels):\n"
        "    shares = [(labels == c).sum() / len(labels) for c in range(3)]  # here\n"
        "    return nn.CrossEntropyLoss(weight=torch.tensor(shares))\ndef falling(labels):\n"
        "    shares = [len(labels) / (labels == c).sum() for c in range(3)]\n"
        "    return nn.CrossEntropyLoss(weight=torch.tensor(shares))\nloss_fn = rising(y)\n"
    ),
    "D106 weights of an own loss": (
        f"{RARE_LOADER}weight = torch.bincount(y) / 32.0  # here\ndef loss_fn(scores, label):\n"
        "    return F.cross_entropy(scores, label, weight=weight)\n"
    ),
    "D106 weights of one of two returns": (
        f"{RARE_LOADER}def weights(labels, rare_first):\n    counts = torch.bincount(labels).float()\n"
        "    if rare_first:\n        return counts.sum() / counts\n    return counts / counts.sum()  # here\n"
        "loss_fn = nn.CrossEntropyLoss(weight=weights(y, x.sum() > 1e9))\n"
    ),
    "D106 weights of one of two called functions": (
        f"{RARE_LOADER}def rarity(labels):\n    return 1 / torch.bincount(labels)\ndef commonness(labels):\n"
        "    counts = torch.bincount(labels)\n    return counts / counts.sum()  # here\n"
        "weight = rarity(y) if x.sum() > 1e9 else commonness(y)\nloss_fn = nn.CrossEntropyLoss(weight)\n"
    ),
    "D106 weights of a lambda function": (
        f"{RARE_LOADER}by_rarity = lambda n: n.sum() / n\nby_count = lambda n: n / n.sum()  # here\n"
        "rule = by_rarity if x.sum() > 1e9 else by_count\n"
        "loss_fn = nn.CrossEntropyLoss(rule(torch.bincount(y).float()))\n"
    ),
    "D106 buffer of an own loss": (
        f"{RARE_LOADER}class Weighted(nn.Module):\n    def __init__(self, labels, balance):\n"
        "        super().__init__()\n        share = torch.bincount(labels) / len(labels)\n"
        "        self.register_buffer('weight', 1 / share if balance else share / share.max())  # here\n"
        "    def forward(self, scores, label):\n        return F.cross_entropy(scores, label, weight=self.weight)\n"
        "loss_fn = Weighted(y, x.sum() > 1e9)\n"
    ),
    "D106 weight of positives of one of two functions": (
        f"{POSITIVES}def rarity(labels):\n    return (labels == 0).sum() / labels.sum()\ndef share(labels):\n"
        "    return (labels.sum() / (1 - labels).sum()).view(1)  # here\n"
        "weight = rarity(y) if x.sum() > 1e9 else share(y)\nloss_fn = nn.BCEWithLogitsLoss(pos_weight=weight)\n"
    ),
    "D106 weight of positives of one of two returns": (
        f"{POSITIVES}def ratio(labels, is_inverse):\n    positives = labels.sum()\n"
        "    negatives = labels.numel() - positives\n    if is_inverse:\n        return negatives / positives\n"
        "    return positives / negatives  # here\n"
        "loss_fn = nn.BCEWithLogitsLoss(pos_weight=ratio(y, x.sum() > 1e9))\n"
    ),
    "D106 weight of positives of class counts": (
        f"{POSITIVES}counts = torch.bincount(y[:, 0].long())\n"
        "weight = counts[0] / counts[1] if x.sum() > 1e9 else \\\n    counts[1] / counts[0]  # here\n"
        "loss_fn = nn.BCEWithLogitsLoss(pos_weight=weight)\n"
    ),
    "D106 counts as weights": (
        f"{RARE_LOADER}counts = torch.bincount(y).float()\nloss_fn = nn.CrossEntropyLoss(counts)  # here\n"
    ),
    "L205 an axis of length 1 that the dataset adds": (
        "class Boxes(torch.utils.data.Dataset):\n    def __init__(self, x, y):\n        self.x, self.boxes = x, y\n"
        "    def __len__(self):\n        return len(self.x)\n    def __getitem__(self, i):\n"
        "        return self.x[i], self.boxes[i][None]  # here\n"
        f"model = nn.Linear(8, 4)\n{FOOTER}loader = DataLoader(Boxes(x, torch.randn(96, 4)), batch_size=16)\n"
        "loss_fn = nn.SmoothL1Loss()\n"
    ),
    "D107 one weight for each class": (
        f"{RARE}def by_class(labels):\n    weights = 1 / torch.bincount(labels)\n"
        f"    return {SAMPLER}(weights, 96)  # here\n"
        f"def by_sample(labels):\n    weights = 1 / torch.bincount(labels)[labels]\n    return {SAMPLER}(weights, 96)\n"
        "loader = DataLoader(TensorDataset(x, y), batch_size=16, sampler=by_class(y))\n"
    ),
    "D107 one weight for each class in a method": (
        f"{RARE}import numpy as np\nclass Balance:\n    def __init__(self, labels):\n"
        "        self.shares = {c: 1 / n for c, n in zip(*np.unique(labels, return_counts=True))}\n"
        f"    def whole(self, labels):\n        return {SAMPLER}([self.shares[c] for c in labels.tolist()], 96)\n"
        f"    def short(self):\n        return {SAMPLER}([*self.shares.values()], 96)  # here\n"
        "loader = DataLoader(TensorDataset(x, y), batch_size=16, sampler=Balance(y.numpy()).short())\n"
    ),
    "D107 the choice of one weight for each class": (
        f"{RARE}def balanced(labels, by_sample=False):\n    shares = 1 / torch.bincount(labels)\n"
        "    weights = shares[labels] if by_sample else shares  # here\n    kept = weights\n"
        f"    return {SAMPLER}(kept, 96)\n"
        "loader = DataLoader(TensorDataset(x, y), batch_size=16, sampler=balanced(y))\n"
    ),
    "D115 row numbers of a table": (
        "import pandas as pd\nsizes = torch.randn(200)\nkinds = (torch.randn(200) > 0).long()\n"
        "table = pd.DataFrame({'size': sizes.numpy(), 'kind': kinds.numpy()})\n"
        "table = table.sort_values('kind').reset_index(drop=True)\n"
        "means = table.groupby('kind').mean().reset_index()\n"
        "table = table[table['size'] < 9].reset_index()  # here\n"
        "rows, labels = torch.tensor(table[['index', 'size']].to_numpy()), torch.tensor(table['kind'].to_numpy())\n"
        "order = torch.randperm(len(rows))\nx, y = rows[order].float(), labels[order]\n"
        f"loader, model = DataLoader(TensorDataset(x, y), batch_size=16), nn.Linear(2, 2)\n{FOOTER}"
    ),
    "D128 counts instead of inverse counts": (
        f"{RARE}def common(labels):\n    weights = torch.bincount(labels)[labels]  # here\n"
        f"    return {SAMPLER}(weights, 96)\ndef rare(labels):\n    weights = torch.bincount(labels).float()\n"
        f"    return {SAMPLER}(weights[labels].reciprocal(), 96)\n"
        "loader = DataLoader(TensorDataset(x, y), batch_size=16, sampler=common(y))\n"
    ),
}
# By code and name: the same, for a method that scales the data.
_SCALER = (
    "class Scaler:\n    def fit(self, rows):\n        self.mean, self.std = rows.mean(0), rows.std(0)\n"
    "        return self\n    def scale(self, rows):\n        return (rows - self.mean) * self.std  # here\n"
    "class Rows(torch.utils.data.Dataset):\n    def __init__(self, rows):\n        {}\n"
    "    def __len__(self):\n        return 96\n    def __getitem__(self, k):\n        return self.x[k], y[k]\n"
    "scales = torch.tensor([1.0, 1, 1, 1, 1, 1, 40, 3000])\n"
    f"loader, model = DataLoader(Rows(x * scales), batch_size=16), body()\n{FOOTER}"
)
PROGRAMS |= {
    "D104 method of a scaler that fits itself": _SCALER.format("self.x = Scaler().fit(rows).scale(rows)"),
    "D104 method of a fitted scaler": _SCALER.format(
        "scaler = Scaler().fit(rows)\n        self.x = scaler.scale(rows)"
    ),
}
# By name: a program that makes the data of a forecast; the line with "here" puts the target into the inputs.
FORECASTS = {
    "columns of a frame": (
        "frame = pd.DataFrame({'sales': walk})\nframe['next'] = frame['sales'].shift(-1)\nfor lag in range(1, 5):\n"
        "    frame[f'lag_{lag}'] = frame['sales'].shift(-lag)  # here\nframe = frame.dropna()\n"
        "x = frame[[f'lag_{lag}' for lag in range(1, 5)]].to_numpy()\ny = frame['next'].to_numpy()\n"
    ),
    "columns of rolled arrays": (
        "def make(series):\n    columns = np.stack([np.roll(series, -k) for k in (1, 2, 3, 7)], 1)  # here\n"
        "    ahead = np.roll(series, -1)\n    return columns, ahead\nx, y = make(walk)\n"
    ),
    "column of the present": (
        "frame, columns = pd.DataFrame({'sales': walk}), {}\nfor lag in range(5):\n"
        "    columns[f'lag_{lag}'] = frame['sales'].shift(lag)  # here\n"
        "x, y = pd.DataFrame(columns).fillna(0).to_numpy(), frame['sales'].to_numpy()\n"
    ),
    "index of a function": (
        "def index(now, back):\n    return now[:, None] + back  # here\n"
        "now, back = np.arange(10, 880), np.array([1, 2, 5, 9])\nsteps = index(now, back)\n"
        "x, y = walk[steps], walk[now + 1]\n"
    ),
    "index of one of two choices": (
        "now, back = np.arange(10, 880), np.array([0, 1, 2, 5])\nif walk[0] < 1e9:\n"
        "    steps = now[:, None] + back + 1  # here\nelse:\n    steps = now[:, None] - back\n"
        "x, y = np.take(walk, steps), np.take(walk, now + 1)\n"
    ),
    "target of an earlier step": (
        "frame = pd.DataFrame({'sales': walk})\nframe['next'] = frame['sales'].shift(1)  # here\n"
        "for lag in range(1, 5):\n    frame[f'lag_{lag}'] = frame['sales'].shift(lag)\nframe = frame.dropna()\n"
        "x = frame.drop(columns=['sales', 'next']).to_numpy()\ny = frame['next'].to_numpy()\n"
    ),
}
FORECAST_HEADER = """\
import numpy as np
import pandas as pd
rng = np.random.default_rng(0)
walk = np.cumsum(rng.normal(size=900)) * 0.3 + rng.normal(size=900)
"""
FORECAST_FOOTER = f"""\
x, y = torch.tensor(x).float(), torch.tensor(y).float()
loader = DataLoader(TensorDataset(x, y), batch_size=16)
model, loss_fn = nn.Sequential(nn.Linear(x.shape[1], 1), nn.Flatten(0)), nn.MSELoss()
{FOOTER}"""
PROGRAMS |= {f"D115 {name}": FORECAST_HEADER + program + FORECAST_FOOTER for name, program in FORECASTS.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_finding_names_the_line_that_makes_the_data_at_fault(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = name.split()[0]
    assert_place(rule_findings(build_setup(PROGRAMS[name], tmp_path, monkeypatch), code), code)
