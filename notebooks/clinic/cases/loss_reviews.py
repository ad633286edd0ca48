# ward: loss
# title: Good, bad or boring
# story: A cinema sorts the comments of its visitors into good, bad and boring. Each comment is a bag of ten words.
# complaint: The loss falls as it should, and the same comment gets another class in another batch.
# codes: L206
# hint: The probabilities of one comment should sum to one. Do they?
# hint: dbg.checkup(select="L") follows the output of the model into the loss, axis by axis.
# hint: The line of forward() with log_softmax: axis 0 is the batch, and the classes are on axis 1.
# right: return F.log_softmax(scores, dim=1)
# wrong: return F.log_softmax(scores, dim=0)
# %%
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WORDS, CLASSES = 60, 3
torch.manual_seed(9)
mood = torch.multinomial(torch.tensor([0.5, 0.3, 0.2]), 300, replacement=True)
frequency = torch.ones(CLASSES, WORDS)
for index in range(CLASSES):
    frequency[index, 8 * index : 8 * index + 8] = 6
comments = torch.multinomial(frequency[mood], 10, replacement=True)
train_loader = DataLoader(TensorDataset(comments[:200], mood[:200]), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(comments[200:], mood[200:]), batch_size=6)


# %%
class CommentNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(WORDS, 12)
        self.out = nn.Linear(12, CLASSES)

    def forward(self, comment):
        scores = self.out(self.words(comment))
        return F.log_softmax(scores, dim=1)


model = CommentNet()
loss_fn = nn.NLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.08)


def train():
    for epoch in range(6):
        for comment, target in train_loader:
            optimizer.zero_grad()
            loss_fn(model(comment), target).backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        right = sum((model(comment).argmax(1) == target).sum().item() for comment, target in val_loader)
    return right / len(val_loader.dataset)
