"""An encoder and decoder with attention that write a sequence backwards."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

START, SYMBOLS, LENGTH = 0, 9, 6
g = torch.Generator().manual_seed(8)
source = torch.randint(1, SYMBOLS, (1000, LENGTH), generator=g)
answer = source.flip(1)
shifted = torch.cat([torch.full((1000, 1), START), answer[:, :-1]], dim=1)


class Translator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, width)
        self.pos = nn.Parameter(torch.randn(LENGTH, width) * 0.1)
        self.encoder = nn.TransformerEncoderLayer(width, 2, 64, dropout=0.0, batch_first=True)
        self.decoder = nn.TransformerDecoderLayer(width, 2, 64, dropout=0.0, batch_first=True)
        self.output = nn.Linear(width, SYMBOLS)

    def forward(self, source, previous):
        memory = self.encoder(self.embed(source) + self.pos)
        mask = nn.Transformer.generate_square_subsequent_mask(previous.shape[1])
        states = self.decoder(self.embed(previous) + self.pos, memory, tgt_mask=mask)
        return self.output(states).transpose(1, 2)


translator = Translator()
criterion = nn.CrossEntropyLoss()
adam = torch.optim.Adam(translator.parameters(), lr=4e-3)
train_loader = DataLoader(TensorDataset(source[:850], shifted[:850], answer[:850]), batch_size=34, shuffle=True)
val_loader = DataLoader(TensorDataset(source[850:], shifted[850:], answer[850:]), batch_size=50)


def train():
    for epoch in range(5):
        translator.train()
        for src, previous, target in train_loader:
            adam.zero_grad()
            logits = translator(src, previous)
            criterion(logits, target).backward()
            adam.step()
        translator.eval()
        hits = total = 0
        with torch.no_grad():
            for src, previous, target in val_loader:
                hits += (translator(src, previous).argmax(1) == target).sum().item()
                total += target.numel()
        print(epoch, hits / total)


SETUP = {"model": translator, "loss_fn": criterion, "optimizer": adam}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader, "train": train}
