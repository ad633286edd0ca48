# ward: evaluation
# title: Two offices, one river
# story: An office predicts the level of rivers and reports R² for each epoch. The code for the metric comes from a colleague who had one large batch.
# complaint: The reported R² depends on the batch size of the validation, and another office gets a better one for the same predictions.
# codes: E708
# hint: Compute the metric over all rows of the validation at once. Is it the number that is reported?
# hint: with dbg.watch(): train() compares the numbers of your loop with the same metric over all rows.
# hint: The last line of evaluate(): it averages R² over batches of eight rows, and each batch has another variance.
# right: return r2_score(np.concatenate(targets), np.concatenate(outputs))
# wrong: return np.mean([r2_score(target, output) for target, output in zip(targets, outputs)])
# %%
import numpy as np
import torch
from sklearn.datasets import make_friedman1
from sklearn.metrics import r2_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(36)
gauges, level = make_friedman1(280, n_features=6, noise=1.5, random_state=36)
x = torch.tensor(gauges * 2 - 1, dtype=torch.float32)
y = torch.tensor((level - level.mean()) / level.std(), dtype=torch.float32).unsqueeze(1)
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=8)
# %%
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
history = []


def evaluate():
    outputs, targets = [], []
    model.eval()
    with torch.no_grad():
        for inputs, target in val_loader:
            outputs.append(model(inputs).numpy())
            targets.append(target.numpy())
    return r2_score(np.concatenate(targets), np.concatenate(outputs))


def train():
    for epoch in range(5):
        model.train()
        for inputs, target in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), target).backward()
            optimizer.step()
        history.append(evaluate())
