# ward: speed
# title: The radio on the roof
# story: An amateur listens to the radio of satellites and tells three of them apart. At the end of each epoch, the program collects all scores of the validation, to write them into a table.
# complaint: The table takes more memory than the training, and much more than its numbers need.
# codes: P806 P804
# hint: What does PyTorch record when the model is called, and who needs it here?
# hint: with dbg.watch(): train() counts passes that record a graph which no backward pass uses.
# hint: The line of collect() that calls the model: nothing switches the recording of gradients off.
# right: with torch.inference_mode():\n        scores = [model(signal) for signal, _ in loader]
# wrong: scores = [model(signal) for signal, _ in loader]
# %%
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator = torch.Generator().manual_seed(48)
satellite = torch.randint(0, 3, (280,), generator=generator)
shift = 2 * math.pi * torch.rand(280, 1, generator=generator)
tone = torch.tensor([0.5, 0.9, 1.4])[satellite].unsqueeze(1)
signals = torch.sin(tone * torch.arange(24) + shift) + 0.7 * torch.randn(280, 24, generator=generator)
spectra = torch.fft.rfft(signals).abs().log()
train_loader = DataLoader(TensorDataset(spectra[:200], satellite[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(spectra[200:], satellite[200:]), batch_size=40)
# %%
torch.manual_seed(48)
model = nn.Sequential(nn.Linear(13, 20), nn.GELU(), nn.Linear(20, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
tables = []


def collect(loader):
    with torch.inference_mode():
        scores = [model(signal) for signal, _ in loader]
    return torch.cat(scores)


def train():
    for epoch in range(5):
        for signal, target in train_loader:
            optimizer.zero_grad()
            loss_fn(model(signal), target).backward()
            optimizer.step()
        tables.append(collect(val_loader))


def evaluate():
    return (tables[-1].argmax(dim=1) == satellite[200:]).float().mean().item()
