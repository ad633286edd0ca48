"""Crashes: recurrent layers, their states, their outputs and packed sequences."""

from __future__ import annotations

from benchmarks.crashes.case import Crash, crash

CASES: tuple[Crash, ...] = (
    crash(
        "carried_state_last_batch",
        "the state is carried from batch to batch, and the last batch is smaller",
        kind="recurrent",
        style="lightning_like",
        source="discuss.pytorch.org, stateful LSTM, Expected hidden[0] size at the last batch",
        program="""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class CharModel(nn.Module):
    def __init__(self, vocab=15, hidden=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, 8)
        self.rnn = nn.GRU(8, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocab)
        self.state = None

    def forward(self, chars):
        out, state = self.rnn(self.embed(chars), self.state)
        self.state = state.detach()
        return self.head(out)

    def training_step(self, batch):
        (chars,) = batch
        scores = self(chars[:, :-1])
        return nn.functional.cross_entropy(scores.flatten(0, 1), chars[:, 1:].flatten())

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.randint(15, (50, 11))), batch_size=16)


torch.manual_seed(0)
module = CharModel()
optimizer = torch.optim.Adam(module.parameters())
for batch in module.train_dataloader():
    loss = module.training_step(batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(("batch_size=16)", "batch_size=16, drop_last=True)"),),
        line=("batch_size=16)", "out, state = self.rnn(self.embed(chars), self.state)", "self.state = state.detach()"),
        says=("16", "2", "last batch|drop_last|batch size|batch_size|state"),
    ),
    crash(
        "empty_sentence_packed",
        "a sentence without any known word keeps no token, and its length is zero",
        kind="recurrent",
        style="script",
        source="GitHub issue, Length of all samples has to be greater than 0",
        program="""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

VOCAB = {"good": 1, "bad": 2, "film": 3, "very": 4}
REVIEWS = [("very good film", 1), ("bad film", 0), ("unwatchable", 0), ("good", 1)]


def tokens(text):
    return [VOCAB[word] for word in text.split() if word in VOCAB]


def encode(reviews):
    rows = [torch.tensor(tokens(text), dtype=torch.long) for text, _ in reviews]
    lengths = torch.tensor([len(row) for row in rows])
    labels = torch.tensor([label for _, label in reviews])
    return pad_sequence(rows, batch_first=True), lengths, labels


torch.manual_seed(0)
embed, rnn, head = nn.Embedding(6, 8), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 2)
optimizer = torch.optim.Adam([*embed.parameters(), *rnn.parameters(), *head.parameters()])
words, lengths, labels = encode(REVIEWS)
for _ in range(3):
    packed = pack_padded_sequence(embed(words), lengths, batch_first=True, enforce_sorted=False)
    _, (state, _) = rnn(packed)
    loss = nn.functional.cross_entropy(head(state[-1]), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        repair=(
            (
                "return [VOCAB[word] for word in text.split() if word in VOCAB]",
                "return [VOCAB.get(word, 5) for word in text.split()]",
            ),
        ),
        line=(
            "return [VOCAB[word] for word in text.split() if word in VOCAB]",
            "rows = [torch.tensor(tokens(text)",
            "lengths = torch.tensor([len(row) for row in rows])",
            "packed = pack_padded_sequence(",
        ),
        says=("empty|no token|zero length|length zero|length 0|lengths of 0|length of 0|clamp", "lengths"),
    ),
)
