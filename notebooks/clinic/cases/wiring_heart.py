# ward: wiring
# title: Three leads of a heart
# story: A recorder stores the voltage of three leads at 24 moments. The convolution wants the leads first, so Ines changed the shape of the tensor.
# complaint: The accuracy stays well below what the plots promise: each lead, drawn from the file, is clear enough.
# codes: M309
# hint: After the shape is changed, is row 0 still the voltage of lead 0 over time?
# hint: dbg.checkup(select="M") asks the rules on the model; dbg.summary() shows the shape after each layer.
# hint: The first line of forward(): a reshape does not exchange two axes, it only counts the numbers in another way.
# right: leads = beat.transpose(1, 2)
# wrong: leads = beat.reshape(len(beat), 3, -1)
# %%
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(17)
kind = torch.randint(0, 3, (280,))
moment = torch.linspace(0, 2 * math.pi, 24)
start = 2 * math.pi * torch.rand(280, 1)
speed = torch.tensor([1.0, 2.0, 3.0])[kind][:, None]
lead = torch.sin(speed * moment + start)
beats = torch.stack([lead, -0.5 * lead, torch.cos(moment + start)], dim=2) + 0.9 * torch.randn(280, 24, 3)
train_loader = DataLoader(TensorDataset(beats[:200], kind[:200]), batch_size=20, shuffle=True)
val_loader = DataLoader(TensorDataset(beats[200:], kind[200:]), batch_size=80)


# %%
class BeatNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(3, 12, kernel_size=5)
        self.conv2 = nn.Conv1d(12, 12, kernel_size=5)
        self.fc = nn.Linear(12, 3)

    def forward(self, beat):
        leads = beat.transpose(1, 2)
        x = F.relu(self.conv1(leads))
        x = F.relu(self.conv2(x)).mean(dim=2)
        return self.fc(x)


model = BeatNet()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)


def train():
    for epoch in range(6):
        for beat, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(beat), target)
            loss.backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        return (model(beats[200:]).argmax(dim=1) == kind[200:]).float().mean().item()
