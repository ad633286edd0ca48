"""An encoder and a decoder with cross-attention from torch's modules write a padded sentence in other letters."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PAD, BEGIN, LENGTH, WORDS = 0, 1, 8, 14
g = torch.Generator().manual_seed(76)
lengths = torch.randint(4, LENGTH + 1, (900, 1), generator=g)
source = torch.randint(2, WORDS, (900, LENGTH), generator=g) * (torch.arange(LENGTH) < lengths)
target = torch.where(source > 1, 2 + (source * 5) % (WORDS - 2), PAD)
shifted = torch.cat([torch.full((900, 1), BEGIN), target[:, :-1]], dim=1)


class EncoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, width))
        self.mlp_norm = nn.LayerNorm(width)

    def forward(self, x, padding):
        attended = self.attention(x, x, x, key_padding_mask=padding, need_weights=False)[0]
        x = self.norm(x + attended)
        return self.mlp_norm(x + self.mlp(x))


class DecoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.cross_attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.cross_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, width))
        self.mlp_norm = nn.LayerNorm(width)

    def forward(self, y, memory, padding):
        future = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
        attended = self.attention(y, y, y, attn_mask=future, need_weights=False)[0]
        y = self.norm(y + attended)
        crossed = self.cross_attention(y, memory, memory, key_padding_mask=padding, need_weights=False)[0]
        y = self.cross_norm(y + crossed)
        return self.mlp_norm(y + self.mlp(y))


class Translator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.source_embedding = nn.Embedding(WORDS, width)
        self.target_embedding = nn.Embedding(WORDS, width)
        self.source_position = nn.Parameter(0.5 * torch.randn(LENGTH, width))
        self.target_position = nn.Parameter(0.5 * torch.randn(LENGTH, width))
        self.encoder = EncoderLayer(width)
        self.decoder = DecoderLayer(width)
        self.generator = nn.Linear(width, WORDS)

    def forward(self, source, shifted):
        padding = source == PAD
        memory = self.encoder(self.source_embedding(source) + self.source_position, padding)
        y = self.target_embedding(shifted) + self.target_position[: shifted.shape[1]]
        return self.generator(self.decoder(y, memory, padding))


def translation_loss(logits, target):
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)


model = Translator()
loss_fn = translation_loss
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
train_loader = DataLoader(TensorDataset(source[:720], shifted[:720], target[:720]), batch_size=36, shuffle=True)
val_loader = DataLoader(TensorDataset(source[720:], shifted[720:], target[720:]), batch_size=90)


def train():
    for epoch in range(7):
        for words, previous, following in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(words, previous), following)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(epoch, [loss_fn(model(a, b), c).item() for a, b, c in val_loader])
