# ward: evaluation
# title: One fraud in ten
# story: A bank has few frauds among its payments. An analyst balances the classes, and reports the score on a part of the table that is kept for validation.
# complaint: The balanced accuracy of validation is good. In the first week of use, far more frauds pass than it promised.
# codes: D108
# hint: Take a fraud of the validation split and look for it in the training split.
# hint: dbg.checkup(select="D") looks for samples that are in both splits.
# hint: The line that calls oversample(): the copies are made before the split, so that they land on both sides.
# right: train_rows, val_rows = oversample(rows[:240], rng), rows[240:]
# wrong: balanced = oversample(rows, rng)\ntrain_rows, val_rows = balanced[len(balanced) // 4 :], balanced[: len(balanced) // 4]
# %%
import numpy as np
import torch
from sklearn.metrics import balanced_accuracy_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def read_payments(count, rng):
    fraud = rng.random(count) < 0.12
    amounts = rng.normal(0, 1, (count, 8)) + fraud[:, None] * np.array([0.9, -0.7, 0.6, 0, 0, 0, 0, 0])
    return np.column_stack([amounts, fraud])


def oversample(rows, rng):
    fraud = rows[:, -1] == 1
    copies = rng.choice(np.flatnonzero(fraud), size=(~fraud).sum())
    return rng.permutation(np.concatenate([rows[~fraud], rows[copies]]))


def as_dataset(rows):
    return TensorDataset(torch.tensor(rows[:, :-1], dtype=torch.float32), torch.tensor(rows[:, -1], dtype=torch.long))


rng = np.random.default_rng(38)
rows = read_payments(400, rng)
train_rows, val_rows = oversample(rows[:240], rng), rows[240:]
train_loader = DataLoader(as_dataset(train_rows), batch_size=60, shuffle=True)
val_loader = DataLoader(as_dataset(val_rows), batch_size=80)
# %%
torch.manual_seed(38)
model = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 2))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)


def train():
    for epoch in range(5):
        for payment, fraud in train_loader:
            optimizer.zero_grad()
            loss_fn(model(payment), fraud).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        pairs = [(fraud, model(payment).argmax(1)) for payment, fraud in val_loader]
    truth, guess = (torch.cat(column).numpy() for column in zip(*pairs))
    return balanced_accuracy_score(truth, guess)
