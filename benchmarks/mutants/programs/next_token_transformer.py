"""A causal Transformer that predicts the next token of a noisy cycle."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, LENGTH = 12, 10
g = torch.Generator().manual_seed(2)
step = torch.randint(1, 4, (800, 1), generator=g)
text = (torch.randint(0, VOCABULARY, (800, 1), generator=g) + step * torch.arange(LENGTH + 1)) % VOCABULARY
flip = torch.rand(text.shape, generator=g) < 0.03
text = torch.where(flip, torch.randint(0, VOCABULARY, text.shape, generator=g), text)


class LanguageModel(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(LENGTH, width)
        self.block = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.1)

    def forward(self, ids):
        size = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(size)
        hidden = self.tokens(ids) + self.positions(torch.arange(size))
        hidden = self.block(hidden, src_mask=mask, is_causal=True)
        return self.head(hidden)


def next_token_loss(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


model = LanguageModel()
loss_fn = next_token_loss
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
inputs, targets = text[:, :-1], text[:, 1:]
train_loader = DataLoader(TensorDataset(inputs[:640], targets[:640]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(inputs[640:], targets[640:]), batch_size=80)
losses = []


def train():
    for _ in range(6):
        for ids, following in train_loader:
            loss = loss_fn(model(ids), following)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
