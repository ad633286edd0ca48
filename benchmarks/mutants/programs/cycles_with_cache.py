"""A pre-norm decoder by hand with learned positions predicts the next token, and generates with a cache."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY, LENGTH = 12, 12
g = torch.Generator().manual_seed(73)
step = torch.randint(1, 4, (800, 1), generator=g)
text = (torch.randint(0, VOCABULARY, (800, 1), generator=g) + step * torch.arange(LENGTH + 1)) % VOCABULARY
flip = torch.rand(text.shape, generator=g) < 0.04
text = torch.where(flip, torch.randint(0, VOCABULARY, text.shape, generator=g), text)


class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x, cache=None):
        b, t, c = x.shape
        q = self.q(x).view(b, t, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(b, t, self.heads, self.size).transpose(1, 2)
        v = self.v(x).view(b, t, self.heads, self.size).transpose(1, 2)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        scores = (q @ k.transpose(2, 3)) * self.size**-0.5
        future = torch.ones(t, k.shape[2], dtype=torch.bool).triu(k.shape[2] - t + 1)
        scores = scores.masked_fill(future, float("-inf"))
        attention = scores.softmax(dim=-1)
        y = attention @ v
        y = y.transpose(1, 2).reshape(b, t, c)
        return self.o(y), (k, v)


class DecoderBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attention = CausalAttention(width, 2)
        self.ln2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(3 * width, width)

    def forward(self, x, cache=None):
        attended, cache = self.attention(self.ln1(x), cache)
        x = x + attended
        x = x + self.proj(nn.functional.gelu(self.fc(self.ln2(x))))
        return x, cache


class Decoder(nn.Module):
    def __init__(self, width=32, depth=2):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(2 * LENGTH, width)
        self.blocks = nn.ModuleList(DecoderBlock(width) for _ in range(depth))
        self.final = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, ids, caches=None, use_cache=False):
        start = caches[0][0].shape[2] if caches is not None else 0
        positions = torch.arange(start, start + ids.shape[1])
        x = self.tokens(ids) + self.positions(positions)
        new_caches = []
        for index, block in enumerate(self.blocks):
            x, cache = block(x, caches[index] if caches is not None else None)
            new_caches.append(cache)
        logits = self.head(self.final(x))
        return (logits, new_caches) if use_cache else logits


def next_token_loss(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


model = Decoder()
loss_fn = next_token_loss
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
inputs, targets = text[:, :-1], text[:, 1:]
train_loader = DataLoader(TensorDataset(inputs[:640], targets[:640]), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(inputs[640:], targets[640:]), batch_size=80)


@torch.no_grad()
def generate(prompt, count):
    logits, caches = model(prompt, use_cache=True)
    scores = [logits[:, -1]]
    for _ in range(count):
        logits, caches = model(scores[-1].argmax(-1, keepdim=True), caches, use_cache=True)
        scores.append(logits[:, -1])
    return torch.stack(scores, dim=1)


def train():
    for _ in range(5):
        for ids, following in train_loader:
            loss = loss_fn(model(ids), following)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    print(generate(inputs[640:642, :5], 6).tolist())
