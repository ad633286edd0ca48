"""An encoder with learned relative position biases and scores without scaling, whose first weights are small."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LENGTH = 10
g = torch.Generator().manual_seed(82)
tokens = torch.randint(0, 10, (900, LENGTH), generator=g)
repeated = tokens[:, 1:] // 5 == tokens[:, :-1] // 5
label = (repeated.sum(1) > 4).long()


class BiasedAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.bias = nn.Embedding(2 * LENGTH, heads)
        nn.init.normal_(self.q.weight, std=(width * width / heads) ** -0.5)
        nn.init.normal_(self.k.weight, std=width**-0.5)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (layer(x).view(b, t, self.heads, -1).transpose(1, 2) for layer in (self.q, self.k, self.v))
        distance = torch.arange(t)[None, :] - torch.arange(t)[:, None]
        scores = torch.matmul(q, k.transpose(3, 2)) + self.bias(distance + LENGTH).permute(2, 0, 1)
        weights = nn.functional.softmax(scores, dim=-1)
        return self.o(torch.matmul(weights, v).transpose(1, 2).reshape(b, t, c))


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(10, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.attentions = nn.ModuleList(BiasedAttention(width, 4) for _ in range(2))
        self.ups = nn.ModuleList(nn.Linear(width, 64) for _ in range(2))
        self.downs = nn.ModuleList(nn.Linear(64, width) for _ in range(2))
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        x = self.embed(tokens)
        for i in range(2):
            x = x + self.attentions[i](self.norms[2 * i](x))
            x = x + self.downs[i](torch.relu(self.ups[i](self.norms[2 * i + 1](x))))
        return self.head(x.mean(dim=1))


model = Encoder()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
train_loader = DataLoader(TensorDataset(tokens[:720], label[:720]), batch_size=36, shuffle=True)
val_loader = DataLoader(TensorDataset(tokens[720:], label[720:]), batch_size=90)


def train():
    for epoch in range(9):
        for words, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(words), target)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(epoch, sum((model(words).argmax(1) == target).sum().item() for words, target in val_loader) / 180)
