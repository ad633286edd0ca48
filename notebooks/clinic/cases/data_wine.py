# ward: data
# title: Three vineyards
# story: A wine shop wants to know from which of three vineyards a bottle comes. The laboratory sends thirteen numbers for each bottle, from the alcohol in percent to the proline in milligrams.
# complaint: A linear model of the laboratory is right for almost every bottle, and this network hardly beats a guess.
# codes: D104
# hint: Print a few rows of the inputs as the model gets them. Are the columns comparable?
# hint: dbg.checkup(select="D") asks the rules on data; dbg.data() shows the range of each column.
# hint: The two lines that set x_train and x_val: the proline is a thousand times as large as the hue, and nothing brings them to one scale.
# right: x_train, x_val = scaler.transform(train_bottles), scaler.transform(val_bottles)
# wrong: x_train, x_val = train_bottles, val_bottles
# %%
import torch
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
bottles, vineyards = load_wine(return_X_y=True)
train_bottles, val_bottles, y_train, y_val = train_test_split(bottles, vineyards, test_size=0.3, random_state=1)
scaler = StandardScaler().fit(train_bottles)
x_train, x_val = scaler.transform(train_bottles), scaler.transform(val_bottles)


def make_loader(features, classes, **options):
    dataset = TensorDataset(torch.tensor(features, dtype=torch.float32), torch.tensor(classes))
    return DataLoader(dataset, **options)


train_loader = make_loader(x_train, y_train, batch_size=32, shuffle=True)
val_loader = make_loader(x_val, y_val, batch_size=54)


# %%
class WineNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(13, 24), nn.ReLU())
        self.head = nn.Linear(24, 3)

    def forward(self, bottle):
        return self.head(self.body(bottle))


model = WineNet()
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train():
    for epoch in range(7):
        for bottle, vineyard in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(bottle), vineyard)
            loss.backward()
            optimizer.step()


@torch.no_grad()
def evaluate():
    bottle, vineyard = next(iter(val_loader))
    return (model(bottle).argmax(dim=1) == vineyard).float().mean().item()
