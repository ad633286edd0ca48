"""A bidirectional GRU that tags each word; padded positions are ignored."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

g = torch.Generator().manual_seed(13)
words = torch.randint(1, 20, (700, 9), generator=g)
tags = (words + words.roll(1, 1)) % 3
lengths = torch.randint(5, 10, (700, 1), generator=g)
padding = torch.arange(9) >= lengths
words[padding] = 0
tags[:, 0] = words[:, 0] % 3
tags[padding] = -100


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 24, padding_idx=0)
        self.gru = nn.GRU(24, 24, batch_first=True, bidirectional=True)
        self.out = nn.Linear(48, 3)

    def forward(self, words):
        states, _ = self.gru(self.embed(words))
        return self.out(states).transpose(1, 2)


tagger = Tagger()
criterion = nn.CrossEntropyLoss(ignore_index=-100)
optimizer = torch.optim.Adam(tagger.parameters(), lr=8e-3)
train_loader = DataLoader(TensorDataset(words[:560], tags[:560]), batch_size=28, shuffle=True)
val_loader = DataLoader(TensorDataset(words[560:], tags[560:]), batch_size=70)


def train():
    for epoch in range(7):
        tagger.train()
        for sentence, tag in train_loader:
            optimizer.zero_grad()
            loss = criterion(tagger(sentence), tag)
            loss.backward()
            nn.utils.clip_grad_norm_(tagger.parameters(), 5.0)
            optimizer.step()
        tagger.eval()
        hits = []
        with torch.no_grad():
            for sentence, tag in val_loader:
                mask = tag != -100
                hits.append((tagger(sentence).argmax(1) == tag)[mask])
        print(f"epoch {epoch}: accuracy {torch.cat(hits).float().mean():.3f}")


SETUP = {"model": tagger, "loss_fn": criterion, "optimizer": optimizer}
SETUP |= {"train_loader": train_loader, "val_loader": val_loader, "train": train}
