"""Definitions that mutants and rewrites add to a program."""

PREVIOUS = """
_previous_values = []


def value_before(value):
    _previous_values.append(value)
    earlier = _previous_values.pop(0) if len(_previous_values) > 1 else value
    return earlier if earlier.shape == value.shape else value
"""

CARRIED = """
_states = {}


def carried(layer, value):
    state = _states.get(id(layer))
    first = state[0] if isinstance(state, tuple) else state
    size = value.shape[0 if layer.batch_first else 1]
    output, new = layer(value, state) if first is not None and first.shape[1] == size else layer(value)
    _states[id(layer)] = tuple(part.detach() for part in new) if isinstance(new, tuple) else new.detach()
    return output, new
"""

BATCH_COUNT = """
_batches = []


def batch_count():
    _batches.append(0)
    return len(_batches)
"""

REPEATED = """
def repeated(batches):
    first = next(iter(batches))
    for _ in range(len(batches)):
        yield first
"""

WITHOUT_LAST = """
def without_last(batches):
    return list(batches)[:-1]
"""

HALF_FROZEN = """
def half_frozen(model):
    for weight in list(model.parameters())[::2]:
        weight.requires_grad_(False)
    return model
"""

IN_BFLOAT16 = """
def in_bfloat16(model):
    def cast(module, arguments):
        return tuple(a.bfloat16() if torch.is_tensor(a) and a.is_floating_point() else a for a in arguments)

    model.bfloat16()
    model.register_forward_pre_hook(cast)
    model.register_forward_hook(lambda module, arguments, output: output.float())
    return model
"""

REPLACE_LAYERS = """
def replace_layers(model):
    for name, layer in list(model.named_modules()):
        if name and not list(layer.children()) and list(layer.parameters()):
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], __import__("copy").deepcopy(layer))
"""

INITIALIZED = """
def initialized(model, change):
    with torch.no_grad():
        for name, weight in model.named_parameters():
            change(name, weight)
    return model
"""

ALWAYS_DROPOUT = """
class AlwaysDropout(torch.nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return torch.nn.functional.dropout(x, self.p)
"""

FROZEN_NORM = """
def frozen_norm(layer):
    layer.eval()
    layer.train = lambda mode=True: layer
    return layer
"""

THROUGH_NUMPY = """
def through_numpy(value):
    return torch.as_tensor(value.detach().numpy()) if torch.is_tensor(value) else value
"""

CHANGED = """
def rows_of(dataset):
    tensors = getattr(dataset, "tensors", None)
    return tensors or torch.utils.data.default_collate([dataset[index] for index in range(len(dataset))])


def changed(dataset, change):
    return torch.utils.data.TensorDataset(*change(list(rows_of(dataset))))


def with_rows_of(dataset, other):
    parts = zip(rows_of(dataset), rows_of(other), strict=True)
    return torch.utils.data.TensorDataset(*[torch.cat([own, repeated[:100]]) for own, repeated in parts])
"""

CRITERION = """
class Criterion(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, output, target):
        return self.inner(output, target)
"""

WRAPPED = """
class Wrapped(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)
"""

PROGRESS = """
def progress(batches):
    done = 0
    for batch in batches:
        yield batch
        done += 1
"""

ROWS = """
class Rows(torch.utils.data.Dataset):
    def __init__(self, source):
        self.source = source

    def __len__(self):
        return len(self.source)

    def __getitem__(self, index):
        return self.source[index]
"""

PROJECTIONS = """
def change_projection(model, index, change):
    def change_third(module, arguments, output):
        parts = list(output.chunk(3, dim=-1))
        parts[index] = change(parts[index])
        return torch.cat(parts, dim=-1)

    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last == ("query", "key", "value")[index]:
            module.register_forward_hook(lambda module, arguments, output: change(output))
        if last == "c_attn":
            module.register_forward_hook(change_third)
    return model
"""

WITHOUT_SCALE = """
def set_scale(model, change):
    for module in model.modules():
        if hasattr(module, "scaling"):
            module.scaling = change(module.scaling)
    return model
"""

ZERO_LAYER = """
def zero_layer(layer):
    for weight in layer.parameters():
        torch.nn.init.zeros_(weight)
    return layer
"""

FIRST_COPY = """
_copies = []


def first_copy(model):
    if not _copies:
        _copies.append(__import__("copy").deepcopy(model))
    return _copies[0]
"""

SORTED_SPLIT = """
def sorted_split(train, val, is_first):
    parts = [torch.cat(pair) for pair in zip(rows_of(train), rows_of(val), strict=True)]
    order = parts[-1].reshape(len(parts[-1]), -1)[:, 0].argsort(stable=True)
    chosen = order[: len(train)] if is_first else order[len(train) :]
    return torch.utils.data.TensorDataset(*[part[chosen] for part in parts])
"""

INPUTS_SORTED = """
def inputs_sorted(rows):
    inputs, *others = torch.utils.data.default_collate(rows)
    return [inputs[inputs.flatten(1).sum(1).argsort()], *others]
"""

FIRST_LABEL = """
def with_first_label(rows):
    *inputs, labels = torch.utils.data.default_collate(rows)
    return [*inputs, labels[:1].expand_as(labels)]
"""
