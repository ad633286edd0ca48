# ward: data
# title: The pump that hums
# story: Ravi records the vibration of water pumps and labels each recording as fine, worn or broken. He keeps the last hundred for validation and mixes the others.
# complaint: Validation stays near one third, which is a guess. Yesterday, before he cleaned up the notebook, it was above ninety percent.
# codes: D105
# hint: Take one row of the data that the model gets, and ask whether its label belongs to it.
# hint: dbg.checkup(select="D") compares how well the labels can be predicted with how well shuffled labels can.
# hint: The line that sets x_train and y_train: recordings and conditions are mixed in two different orders.
# right: order = rng.permutation(220)\nx_train, y_train = recordings[:220][order], conditions[:220][order]
# wrong: x_train, y_train = rng.permutation(recordings[:220]), rng.permutation(conditions[:220])
# %%
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(3)
torch.manual_seed(3)
conditions = rng.integers(0, 3, 320)
noise = rng.normal(size=(320, 10))
tones = np.array([[1.0, 0, 0, 2], [0, 1.5, 0, -1], [0, 0, 2, 0]])[conditions]
recordings = noise + tones @ rng.normal(size=(4, 10))
order = rng.permutation(220)
x_train, y_train = recordings[:220][order], conditions[:220][order]
# %%
train_set = TensorDataset(torch.from_numpy(x_train).float(), torch.from_numpy(y_train))
val_set = TensorDataset(torch.from_numpy(recordings[220:]).float(), torch.from_numpy(conditions[220:]))
train_loader = DataLoader(train_set, batch_size=44, shuffle=True)
val_loader = DataLoader(val_set, batch_size=50)
model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)


def train(epochs=5):
    for _ in range(epochs):
        for signal, condition in train_loader:
            loss = loss_fn(model(signal), condition)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def evaluate():
    right = 0
    with torch.no_grad():
        for signal, condition in val_loader:
            right += (model(signal).argmax(1) == condition).sum().item()
    return right / len(val_set)
