"""Crashes: indices that an embedding does not have."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "token_id_equals_vocabulary",
        "the padding index is the size of the vocabulary",
        kind="embedding_range",
        style="custom_parts",
        source="Stack Overflow, index out of range in self",
        program="""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

VOCABULARY = ["the", "cat", "dog", "sat", "ran", "home", "fast"]
INDEX = {word: i for i, word in enumerate(VOCABULARY)}
PAD = len(VOCABULARY)


class Sentences(Dataset):
    texts = ["the cat sat", "the dog ran home fast", "dog ran", "cat sat home"] * 4

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        words = self.texts[i].split()
        return torch.tensor([INDEX[word] for word in words]), float("dog" in words)


def collate(samples):
    tokens, labels = zip(*samples)
    return pad_sequence(list(tokens), batch_first=True, padding_value=PAD), torch.tensor(labels)


torch.manual_seed(0)
embedding = nn.Embedding(len(VOCABULARY), 8)
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*embedding.parameters(), *head.parameters()], lr=0.01)
for tokens, labels in DataLoader(Sentences(), batch_size=4, collate_fn=collate):
    logits = head(embedding(tokens).mean(1)).squeeze(1)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("nn.Embedding(len(VOCABULARY), 8)", "nn.Embedding(len(VOCABULARY) + 1, 8, padding_idx=PAD)"),),
        line=("nn.Embedding(len(VOCABULARY), 8)", "PAD = len(VOCABULARY)", "padding_value=PAD"),
        says=("7", "index|range"),
    ),
)
