# ward: evaluation
# title: Too good to be true
# story: A hospital predicts which patients come back within a month. The table comes from the database with all columns that it has.
# complaint: The model is right for every patient in the report. In the hospital it is right for two of three.
# codes: D115
# codes: E712
# hint: There are two faults: one in the columns of the table, one in the samples that are evaluated.
# hint: dbg.checkup(select="D") asks the rules on data; with dbg.watch(): train() records which loader is evaluated.
# hint: The last column, the ward of the second stay, is known only of those who came back; and accuracy() gets train_loader in train().
# right: columns = ["age", "days", "drugs", "visits", "distance", "pressure"]
# wrong: columns = ["age", "days", "drugs", "visits", "distance", "pressure", "next_ward"]
# right: scores.append(accuracy(val_loader))
# wrong: scores.append(accuracy(train_loader))
# %%
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rng = np.random.default_rng(41)
names = ["age", "days", "drugs", "visits", "distance", "pressure"]
patients = pd.DataFrame(rng.normal(size=(300, 6)), columns=names)
risk = patients["age"] + 0.8 * patients["drugs"] - 0.6 * patients["distance"] + rng.normal(0, 1.5, 300)
patients["returns"] = (risk > 0).astype(int)
patients["next_ward"] = np.where(patients["returns"] == 1, 3.0, 0.0)
columns = ["age", "days", "drugs", "visits", "distance", "pressure"]
x = torch.tensor(patients[columns].to_numpy(), dtype=torch.float32)
y = torch.tensor(patients["returns"].to_numpy())
train_loader = DataLoader(TensorDataset(x[:180], y[:180]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[180:], y[180:]), batch_size=60)
# %%
torch.manual_seed(41)
model = nn.Sequential(nn.Linear(len(columns), 24), nn.ReLU(), nn.Linear(24, 2))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
scores = []


def accuracy(loader):
    model.eval()
    with torch.no_grad():
        right = sum((model(patient).argmax(1) == back).sum().item() for patient, back in loader)
    return right / len(loader.dataset)


def train():
    for epoch in range(5):
        model.train()
        for patient, back in train_loader:
            optimizer.zero_grad()
            loss_fn(model(patient), back).backward()
            optimizer.step()
        scores.append(accuracy(val_loader))


def evaluate():
    return scores[-1]
