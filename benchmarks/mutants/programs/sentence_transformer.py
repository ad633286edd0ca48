"""A Transformer encoder over padded sentences that finds which kind of token is most frequent."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PAD, LENGTH = 0, 12
g = torch.Generator().manual_seed(5)
kind = torch.randint(0, 3, (1000,), generator=g)
lengths = torch.randint(5, LENGTH + 1, (1000,), generator=g)
typical = 1 + kind.unsqueeze(1) * 4 + torch.randint(0, 4, (1000, LENGTH), generator=g)
noise = torch.randint(1, 13, (1000, LENGTH), generator=g)
tokens = torch.where(torch.rand(1000, LENGTH, generator=g) < 0.55, typical, noise)
tokens[torch.arange(LENGTH) >= lengths.unsqueeze(1)] = PAD


class SentenceClassifier(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(13, width, padding_idx=PAD)
        self.position = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 2, 48, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, 3)

    def forward(self, words):
        padding = words == PAD
        states = self.encoder(self.embed(words) + self.position, src_key_padding_mask=padding)
        weights = (~padding).unsqueeze(-1).float()
        pooled = (states * weights).sum(1) / weights.sum(1)
        return self.head(pooled)


model = SentenceClassifier()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
train_loader = DataLoader(TensorDataset(tokens[:800], kind[:800]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(tokens[800:], kind[800:]), batch_size=100)


def train(epochs=5):
    for epoch in range(epochs):
        model.train()
        for words, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(words), target)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            accuracy = sum((model(words).argmax(1) == target).sum() for words, target in val_loader) / 200
        print(f"{epoch}: {accuracy:.3f}")
