# ward: optimizer
# title: Wine for every day
# story: Leon classifies wines. He added a line here and there while he looked for the best size of the network.
# complaint: The optimizer steps, the gradients are there, and the loss is a flat line.
# codes: O503 O504
# hint: Which tensors does the optimizer change? Which ones does the model use?
# hint: dbg.checkup(select="O") compares the parameters of the optimizer with those of the model.
# hint: The line after optimizer = ... creates the model once more; the optimizer still has the first one.
# right: optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
# wrong: optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\nmodel = build_model()
# %%
import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(4)
chemistry, cultivar = load_wine(return_X_y=True)
x, y = torch.tensor(chemistry, dtype=torch.float32), torch.tensor(cultivar)
shuffled = torch.randperm(len(x))
x, y = x[shuffled], y[shuffled]
x = (x - x[:128].mean(0)) / x[:128].std(0)
train_loader = DataLoader(TensorDataset(x[:128], y[:128]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(x[128:], y[128:]), batch_size=50)


# %%
def build_model():
    return nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 3))


model = build_model()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def train():
    for epoch in range(8):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(x[128:]).argmax(1) == y[128:]).float().mean().item()
