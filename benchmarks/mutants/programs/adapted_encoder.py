"""Low-rank adapters fine-tune a frozen encoder that was trained on another task before."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LENGTH = 8
g = torch.Generator().manual_seed(77)
tokens = torch.randint(0, 16, (900, LENGTH), generator=g)
old_label = (tokens < 8).sum(1) // 3
new_label = ((tokens % 4 == 0).sum(1) > 2).long() + ((tokens % 4 == 1).sum(1) > 2).long() * 2


class Adapted(nn.Module):
    def __init__(self, base, rank=4, alpha=8):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * self.up(self.down(x))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        query = self.query(x).view(b, t, 4, c // 4).transpose(1, 2)
        key = self.key(x).view(b, t, 4, c // 4).transpose(1, 2)
        value = self.value(x).view(b, t, 4, c // 4).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.output(mixed.transpose(1, 2).reshape(b, t, c))


class Encoder(nn.Module):
    def __init__(self, width=32, depth=2):
        super().__init__()
        self.embedding = nn.Embedding(16, width)
        self.positions = nn.Parameter(0.1 * torch.randn(LENGTH, width))
        self.attentions = nn.ModuleList([Attention(width) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * depth)])
        self.mlps = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width)) for _ in range(depth)]
        )

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions
        for i in range(len(self.attentions)):
            x = x + self.attentions[i](self.norms[2 * i](x))
            x = x + self.mlps[i](self.norms[2 * i + 1](x))
        return x.mean(1)


class Classifier(nn.Module):
    def __init__(self, encoder, classes):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(32, classes)

    def forward(self, tokens):
        return self.head(self.encoder(tokens))


def fit(network, labels, optimizer, epochs):
    for _ in range(epochs):
        for rows in torch.randperm(700).split(35):
            optimizer.zero_grad()
            F.cross_entropy(network(tokens[rows]), labels[rows]).backward()
            optimizer.step()


encoder = Encoder()
first = Classifier(encoder, 3)
fit(first, old_label, torch.optim.Adam(first.parameters(), lr=3e-3), 3)
for weight in encoder.parameters():
    weight.requires_grad_(False)
for attention in encoder.attentions:
    attention.query = Adapted(attention.query)
    attention.value = Adapted(attention.value)
model = Classifier(encoder, 4)
trainable = [weight for weight in model.parameters() if weight.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=5e-3, weight_decay=0.01)
loss_fn = nn.CrossEntropyLoss()
train_loader = DataLoader(TensorDataset(tokens[:700], new_label[:700]), batch_size=35, shuffle=True)
val_loader = DataLoader(TensorDataset(tokens[700:], new_label[700:]), batch_size=100)


def train():
    for epoch in range(6):
        for words, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(words), target)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(epoch, sum((model(words).argmax(1) == target).sum().item() for words, target in val_loader) / 200)
