# ward: data
# title: The weather station
# story: A student predicts how much power a solar roof yields from four instruments of a weather station. The file of the station has an entry for every hour.
# complaint: The prediction is poor, although sun and clouds alone explain almost all of the power.
# codes: D113
# hint: Look at the smallest value of each column before the columns are scaled.
# hint: dbg.checkup(select="D") asks the rules on data; dbg.data() shows a histogram of each column.
# hint: The line after the file is read: the station writes -999 when an instrument fails, and these entries stay in the table.
# right: hours = np.where(table == -999, np.nanmean(np.where(table == -999, np.nan, table), axis=0), table)
# wrong: hours = table
# %%
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def read_station(count=300, seed=5):
    rng = np.random.default_rng(seed)
    sun, cloud = rng.uniform(0, 900, count), rng.uniform(0, 1, count)
    heat, wind = 5 + sun / 40 + rng.normal(0, 2, count), rng.gamma(2, 2, count)
    power = sun * (1 - 0.7 * cloud) / 100 - 0.03 * heat + rng.normal(0, 0.3, count)
    table = np.stack([sun, cloud, heat, wind], axis=1)
    table[rng.random(table.shape) < 0.06] = -999
    return table, power


table, power = read_station()
hours = np.where(table == -999, np.nanmean(np.where(table == -999, np.nan, table), axis=0), table)
hours = (hours - hours[:200].mean(axis=0)) / hours[:200].std(axis=0)
power = (power - power[:200].mean()) / power[:200].std()
x, y = torch.tensor(hours, dtype=torch.float32), torch.tensor(power, dtype=torch.float32).unsqueeze(1)
train_loader = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=100)
# %%
torch.manual_seed(5)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
loss_fn = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)


def train():
    for epoch in range(6):
        for instruments, target in train_loader:
            optimizer.zero_grad()
            loss_fn(model(instruments), target).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        rest = y[200:] - model(x[200:])
    return (1 - rest.var() / y[200:].var()).item()
