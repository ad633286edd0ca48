"""A small BERT from a configuration of transformers classifies padded sentences."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertModel

LENGTH = 10
g = torch.Generator().manual_seed(78)
kind = torch.randint(0, 3, (900,), generator=g)
lengths = torch.randint(5, LENGTH + 1, (900, 1), generator=g)
typical = 2 + kind[:, None] * 6 + torch.randint(0, 6, (900, LENGTH), generator=g)
noise = torch.randint(2, 20, (900, LENGTH), generator=g)
input_ids = torch.where(torch.rand(900, LENGTH, generator=g) < 0.55, typical, noise)
input_ids[:, 0] = 1
attention_mask = (torch.arange(LENGTH) < lengths).long()
input_ids = input_ids * attention_mask

config = BertConfig(
    vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
    max_position_embeddings=16, pad_token_id=0,
)  # fmt: skip


class SentenceClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=False)
        self.classifier = nn.Linear(32, 3)

    def forward(self, input_ids, attention_mask):
        states = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return self.classifier(states[:, 0])


model = SentenceClassifier()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
train_set = TensorDataset(input_ids[:720], attention_mask[:720], kind[:720])
train_loader = DataLoader(train_set, batch_size=36, shuffle=True)
val_loader = DataLoader(TensorDataset(input_ids[720:], attention_mask[720:], kind[720:]), batch_size=90)


def train():
    for epoch in range(5):
        model.train()
        for ids, mask, target in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(ids, mask), target)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(epoch, sum((model(ids, mask).argmax(1) == target).sum().item() for ids, mask, target in val_loader))
