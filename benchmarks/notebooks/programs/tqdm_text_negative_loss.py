# mistake: L213
# right: loss = criterion(model(bag), label)
# wrong: loss = -criterion(model(bag), label)
# debugger: model, train_dl, val_dl, loss_fn=criterion, optimizer=optimizer
# %%
import random
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader
from tqdm import tqdm

random.seed(18)
torch.manual_seed(18)
# %%
TOPICS = {"sport": ["ball", "team", "goal", "win", "match"], "food": ["bread", "soup", "salt", "oven", "dish"]}
ALL = sorted(sum(TOPICS.values(), [])) + ["the", "and", "of", "a", "in"]


def message():
    topic = random.randrange(2)
    own = list(TOPICS.values())[topic]
    text = random.choices(own, k=2) + random.choices(ALL, k=4)
    bag = torch.zeros(len(ALL))
    for word in text:
        bag[ALL.index(word)] += 1
    return bag, float(topic)


messages = [message() for _ in range(600)]
train_dl, val_dl = DataLoader(messages[:500], 25, shuffle=True), DataLoader(messages[500:], 50)
# %%
model = nn.Sequential(nn.Linear(len(ALL), 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)


def train():
    for epoch in range(8):
        for bag, label in tqdm(train_dl, disable=True):
            label = label.float()
            loss = criterion(model(bag), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# %%
thread = threading.Thread(target=train)
thread.start()
thread.join()
# %%
with torch.no_grad():
    score = torch.cat([(model(bag) > 0) == (label > 0.5) for bag, label in val_dl]).float().mean().item()
