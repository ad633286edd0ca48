# ward: loss
# title: The average patient
# story: A clinic predicts how diabetes progresses within a year from ten measurements. The network has one output, the progression.
# complaint: The prediction is nearly the same number for everybody.
# codes: L205
# hint: Compare the shapes of the two tensors that enter the loss.
# hint: dbg.checkup(select="L") asks the rules on the loss; dbg.overfit() shows that even 16 samples are not learned.
# hint: The line in train() that calls loss_fn: (20, 1) minus (20,) is a 20 × 20 matrix.
# right: loss_fn(model(inputs).squeeze(1), targets).backward()
# wrong: loss_fn(model(inputs), targets).backward()
# %%
import torch
from sklearn.datasets import load_diabetes
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
table, progression = load_diabetes(return_X_y=True)
x = torch.tensor(table, dtype=torch.float32) * 20
y = torch.tensor((progression - 152) / 77, dtype=torch.float32)
shuffled = torch.randperm(len(x))
x, y = x[shuffled], y[shuffled]
train_loader = DataLoader(TensorDataset(x[:240], y[:240]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[240:], y[240:]), batch_size=100)
# %%
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)


def train():
    for epoch in range(5):
        for inputs, targets in train_loader:
            optimizer.zero_grad()
            loss_fn(model(inputs).squeeze(1), targets).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        errors = model(x[240:]).squeeze(1) - y[240:]
    return 1 - (errors.square().mean() / y[240:].var()).item()
