# ward: loss
# title: Who will cancel?
# story: A phone company predicts which customers will cancel. The model returns a probability, as the sales team asked for.
# complaint: The loss stays above 0.5, and the model is never surer than 73 percent that a customer will cancel.
# codes: L202
# hint: Which range of numbers does the loss expect from the model?
# hint: dbg.checkup(select="L") asks the rules on the loss, which read the graph of the loss.
# hint: The last line of forward() applies a sigmoid, and the loss applies its own.
# right: return self.layers(customer).squeeze(-1)
# wrong: return torch.sigmoid(self.layers(customer)).squeeze(-1)
# %%
import torch
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

table, cancels = make_classification(
    300, 9, n_informative=6, n_redundant=0, weights=[0.7], class_sep=1.2, flip_y=0.02, random_state=21
)
x_train, x_val, y_train, y_val = (
    torch.tensor(part, dtype=torch.float32) for part in train_test_split(table, cancels, test_size=100, random_state=0)
)
train_loader = DataLoader(TensorDataset(x_train, y_train), batch_size=40, shuffle=True)
val_loader = DataLoader(TensorDataset(x_val, y_val), batch_size=50)


# %%
class ChurnModel(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(9, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, customer):
        return self.layers(customer).squeeze(-1)


torch.manual_seed(2)
model = ChurnModel()
loss_fn = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)


def train():
    for epoch in range(6):
        for customer, cancel in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(customer), cancel)
            loss.backward()
            optimizer.step()


def evaluate():
    with torch.no_grad():
        losses = [loss_fn(model(customer), cancel).item() for customer, cancel in val_loader]
    return -sum(losses) / len(losses)
