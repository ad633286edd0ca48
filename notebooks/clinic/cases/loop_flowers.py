# ward: loop
# title: Slower and slower
# story: Hana copied a schedule from a paper: a tenth of the rate after each third of the training. Her data set is smaller than that of the paper.
# complaint: The loss falls for a moment and then stands still, as if somebody had pulled the plug.
# codes: O507
# hint: Print the learning rate at each step, not only at the start.
# hint: with dbg.watch(): train() records the learning rate and the calls of the scheduler.
# hint: The line scheduler.step(): it stands in the loop over the batches, and the schedule counts epochs.
# right: optimizer.step()\n        scheduler.step()
# wrong: optimizer.step()\n            scheduler.step()
# %%
import torch
from sklearn.datasets import make_blobs
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(15)
petals, kind = make_blobs(300, n_features=5, centers=6, cluster_std=2.5, random_state=15)
x = torch.tensor(petals, dtype=torch.float32) / 6
y = torch.tensor(kind)
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=20, shuffle=True)
val_loader = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=100)
# %%
EPOCHS = 6
model = nn.Sequential(nn.Linear(5, 24), nn.ReLU(), nn.Linear(24, 6))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
scheduler = StepLR(optimizer, step_size=EPOCHS // 3, gamma=0.1)


def train():
    for epoch in range(EPOCHS):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()
        scheduler.step()


def evaluate():
    with torch.no_grad():
        return (model(x[200:]).argmax(1) == y[200:]).float().mean().item()
