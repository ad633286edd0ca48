# ward: speed
# title: The singing birds
# story: Sixty hours of birdsong lie on a disk. The dataset turns each recording into a spectrum whenever it is asked for it.
# complaint: The program spends the night on what a network of this size should learn in minutes. A faster computer changed little. (The score is 1 if an epoch takes at most twice as long as one on batches in memory.)
# codes: P801
# hint: What does a step wait for before it computes anything?
# hint: dbg.profile() measures how long each step waits for its batch, and which line takes that time.
# hint: The line of __getitem__() that computes a spectrum: it is the same spectrum in each epoch.
# right: return self.spectra[index], self.species[index]
# wrong: return make_spectrum(self.songs[index]), self.species[index]
# %%
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

generator = torch.Generator().manual_seed(61)
species = torch.randint(0, 3, (280,), generator=generator)
pitch = torch.tensor([0.3, 0.5, 0.8])[species].unsqueeze(1)
songs = torch.sin(pitch * torch.arange(400)) + torch.randn(280, 400, generator=generator)


def make_spectrum(song):
    """Return the strength of 24 tones, averaged over the windows of a song."""
    strengths = [torch.fft.rfft(song[start : start + 46]).abs() for start in range(0, 354, 12)]
    return torch.stack(strengths).mean(0).log()


class Songs(Dataset):
    def __init__(self, songs, species):
        self.songs, self.species = songs, species
        self.spectra = [make_spectrum(song) for song in songs]

    def __len__(self):
        return len(self.songs)

    def __getitem__(self, index):
        return self.spectra[index], self.species[index]


train_loader = DataLoader(Songs(songs[:200], species[:200]), batch_size=100, shuffle=True)
val_loader = DataLoader(Songs(songs[200:], species[200:]), batch_size=80)
# %%
torch.manual_seed(61)
model = nn.Sequential(nn.Linear(24, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 3))
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def train(batches=train_loader, epochs=3):
    for epoch in range(epochs):
        for spectrum, target in batches:
            optimizer.zero_grad()
            loss_fn(model(spectrum), target).backward()
            optimizer.step()


def evaluate():
    """Return 1 if an epoch takes at most twice as long as one on batches in memory, otherwise a smaller number."""
    in_memory, seconds = list(train_loader), {}
    for batches in (in_memory, train_loader) * 5:
        started = time.process_time()
        train(batches, epochs=1)
        seconds.setdefault(id(batches), []).append(time.process_time() - started)
    return min(1.0, 2 * min(seconds[id(in_memory)]) / min(seconds[id(train_loader)]))
