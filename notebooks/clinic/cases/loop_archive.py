# ward: loop
# title: The best epoch
# story: Pavel trains on few letters from an archive, so the network learns them by rote in the end. He keeps the weights of the best epoch and puts them back after training.
# complaint: The best weights are put back, and the score is always that of the last epoch.
# codes: R905
# hint: When do the weights that he keeps change?
# hint: with dbg.watch(): train() compares the memory of saved weights with that of the model.
# hint: The line that sets best_weights: state_dict() returns the tensors of the model themselves, which train on.
# right: best_weights = copy.deepcopy(model.state_dict())
# wrong: best_weights = model.state_dict()
# %%
import copy

import torch
from sklearn.datasets import make_classification
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(23)
letters, writer = make_classification(
    300, 16, n_informative=5, n_redundant=0, class_sep=0.8, flip_y=0.2, random_state=23
)
x, y = torch.tensor(letters).float(), torch.tensor(writer)
train_loader = DataLoader(TensorDataset(x[:150], y[:150]), batch_size=30, shuffle=True)
val_loader = DataLoader(TensorDataset(x[150:], y[150:]), batch_size=150)
# %%
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
best_score, best_weights = 0.0, None


def evaluate():
    model.eval()
    with torch.no_grad():
        losses = [loss_fn(model(inputs), targets).item() for inputs, targets in val_loader]
    return -sum(losses) / len(losses)


def train():
    global best_score, best_weights
    best_score = evaluate()
    for epoch in range(8):
        model.train()
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()
        score = evaluate()
        if score > best_score:
            best_score = score
            best_weights = copy.deepcopy(model.state_dict())
    model.load_state_dict(best_weights)
