"""What a layer gives for a sample is what it gives, and what is said of it is so."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.internals import features, layer_calls
from tests.attribution.networks import Recurrent, Residual, Sequence


def convolutions(inplace: bool = True) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(inplace), nn.Flatten(), nn.Linear(64, 3)).eval()


def test_what_a_layer_gives_is_caught_before_the_next_writes_into_it() -> None:
    model, x = convolutions(), torch.randn(2, 1, 6, 6)
    found = features(model, x, "0")
    assert torch.equal(torch.from_numpy(found.values), model[0](x))
    assert found.values.min() < 0
    assert (found.layout, found.channels, found.maps.shape) == ("maps", 1, (2, 4, 4, 4))


def test_what_a_layer_is_given_is_caught_before_it_writes_into_it() -> None:
    model, x = convolutions(), torch.randn(2, 1, 6, 6)
    found = features(model, x, model[1], side="input")
    assert torch.equal(torch.from_numpy(found.values), model[0](x))


def test_a_module_that_is_called_twice_has_two_outputs() -> None:
    model, x = Residual().eval(), torch.randn(2, 1, 6, 6)
    first, second = (features(model, x, "relu", call=call).values for call in (0, 1))
    assert torch.equal(torch.from_numpy(first), model.stem(x).relu())
    assert abs(first - second).max() > 0
    with pytest.raises(SetupError, match="call is 2; expected 0 to 1"):
        features(model, x, "relu", call=2)


def test_layers_come_in_the_order_of_their_calls_and_tell_who_gave_the_same() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.Dropout(), nn.Linear(3, 2))
    found = layer_calls(model, torch.randn(5, 4))
    assert [one.title for one in found.distinct] == ["0.0", "0.1", "2"]
    assert {one.title: one.same_output_as for one in found.calls if one.same_output_as} == {
        "0": "0.1",
        "1": "0.1",
        "the model": "2",
    }


def test_an_output_written_into_is_not_the_same_output() -> None:
    found = layer_calls(convolutions(), torch.randn(1, 1, 6, 6))
    assert [one.title for one in found.distinct] == ["0", "1", "2", "3"]


def test_one_of_several_tensors_is_chosen_by_the_way_to_it() -> None:
    model, x = Recurrent().eval(), torch.randn(2, 5, 2)
    states, last = model.gru(x)
    assert torch.equal(torch.from_numpy(features(model, x, "gru").values), states)
    found = features(model, x, "gru", piece="[1]")
    assert torch.equal(torch.from_numpy(found.values), last.transpose(0, 1))
    assert found.pieces == {"[0]": (5, 6), "[1]": (1, 6)}
    with pytest.raises(SetupError, match=r"piece is 'h'; expected one of '\[0\]', '\[1\]'"):
        features(model, x, "gru", piece="h")


def test_a_packed_sequence_is_padded() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.RNN(2, 3, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, [x.shape[1]] * len(x), batch_first=True)
            return self.rnn(packed)[1][0]

    model, x = Packed(), torch.randn(2, 4, 2)
    assert torch.allclose(torch.from_numpy(features(model, x, "rnn").values), model.rnn(x)[0])


def test_sequences_have_their_units_last_and_series_first() -> None:
    tokens = features(Sequence(), torch.randint(20, (2, 6)), "block.linear1")
    assert (tokens.layout, tokens.maps.shape) == ("sequence", (2, 16, 6))
    model = nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2))
    assert features(model, torch.randn(2, 2, 5), "1").maps.shape == (2, 3, 3)


def test_channels_that_say_nothing_are_marked() -> None:
    model = convolutions(False)
    with torch.no_grad():
        model[0].weight[0], model[0].bias[0] = 0, -1
        model[0].weight[1], model[0].bias[1] = 1, 0
    x = -torch.ones(1, 1, 6, 6)
    found = features(model, x, "1")
    assert found.marks[0][:2] == ["silent", "silent"]
    found = features(model, x, "1", background=torch.cat([x, -x]), labels=[0, 1])
    assert found.marks[0][:2] == ["dead", "silent"]
    assert "1 of 4 channels are dead: zero on the whole background" in str(found)
    assert found.channel_statistics is not None
    assert found.channel_statistics.for_class(1)[2] == 1
    assert found.channel_statistics.for_class(1)[0][1] == pytest.approx(9)
    assert found.channel_statistics.for_class()[0][1] == pytest.approx(4.5)


def test_a_channel_at_the_end_of_its_range_is_saturated() -> None:
    model = nn.Sequential(nn.Linear(1, 3), nn.Sigmoid(), nn.Linear(3, 1))
    with torch.no_grad():
        model[0].weight[:], model[0].bias[:] = 0, torch.tensor([9.0, 0.0, -9.0])
    assert features(model, torch.zeros(1, 1), "1").marks == [["saturated", "", "saturated"]]


def test_a_layer_that_is_never_called_is_told_by_name() -> None:
    tokens = torch.randint(20, (2, 6))
    assert layer_calls(Sequence(), tokens).uncalled == ("block.self_attn.out_proj",)
    with pytest.raises(SetupError, match=r"'block.self_attn.out_proj' is never called; expected a layer such as"):
        features(Sequence(), tokens, "block.self_attn.out_proj")
    with pytest.raises(SetupError, match="'nothing', which is not in the model"):
        features(Sequence(), tokens, "nothing")


def test_torchscript_is_said() -> None:
    model, x = convolutions(), torch.randn(1, 1, 6, 6)
    with pytest.raises(SetupError, match="model is TorchScript"):
        features(torch.jit.trace(model, x), x)
    model[0] = torch.jit.trace(model[0], x)
    assert "TorchScript, which cannot be inspected: 0." in layer_calls(model, x).notes


def test_a_compiled_layer_is_seen() -> None:
    model, x = convolutions(), torch.randn(1, 1, 6, 6)
    model[1].compile(backend="eager")
    found = features(model, x, "1")
    assert torch.equal(torch.from_numpy(found.values), model[0](x).relu())


def test_positions_are_not_taken_for_samples() -> None:
    class Placed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.place, self.head = nn.Embedding(6, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head((x + self.place(torch.arange(6))).mean(1))

    assert layer_calls(Placed(), torch.randn(3, 6, 4)).calls_of("place")[0].shape == (6, 4)
    with pytest.raises(SetupError, match=r"gives \(6, 4\) for 3 samples"):
        features(Placed(), torch.randn(3, 6, 4), "place")
