"""Self-attention with dropout and an embedding."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, tokens):
        return self.out(self.layer(self.embedding(tokens))).transpose(1, 2)


tokens = torch.randint(0, 20, (48, 7))
model = Tagger()
dbg = nbdebug.Debugger(
    model,
    DataLoader(TensorDataset(tokens, tokens % 3), batch_size=8, shuffle=True),
    loss_fn=nn.CrossEntropyLoss(),
    optimizer=torch.optim.AdamW(model.parameters()),
)
