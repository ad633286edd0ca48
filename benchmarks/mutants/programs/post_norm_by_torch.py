"""torch's own encoder and decoder layers, with the norm after the sum, write a sentence in reverse."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WORDS, LENGTH = 12, 6
g = torch.Generator().manual_seed(85)
source = torch.randint(1, WORDS, (900, LENGTH), generator=g)
target = source.flip(1)
previous = torch.cat([torch.zeros(900, 1, dtype=torch.long), target[:, :-1]], dim=1)


class Reverser(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.source_positions = nn.Embedding(LENGTH, width)
        self.target_positions = nn.Embedding(LENGTH, width)
        options = {"dim_feedforward": 64, "dropout": 0.0, "batch_first": True}
        self.encoder = nn.TransformerEncoderLayer(width, 4, **options)
        self.decoder = nn.TransformerDecoderLayer(width, 4, **options)
        self.head = nn.Linear(width, WORDS)

    def forward(self, source, previous):
        steps = torch.arange(source.shape[1])
        memory = self.encoder(self.words(source) + self.source_positions(steps))
        mask = nn.Transformer.generate_square_subsequent_mask(len(steps))
        states = self.decoder(self.words(previous) + self.target_positions(steps), memory, tgt_mask=mask)
        return self.head(states)


model = Reverser()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
parts = (source, previous, target)
train_loader = DataLoader(TensorDataset(*[part[:720] for part in parts]), batch_size=36, shuffle=True)
val_loader = DataLoader(TensorDataset(*[part[720:] for part in parts]), batch_size=90)


def loss_fn(logits, target):
    return nn.functional.cross_entropy(logits.transpose(1, 2), target)


def train():
    for epoch in range(7):
        for words, before, following in train_loader:
            loss = loss_fn(model(words, before), following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
