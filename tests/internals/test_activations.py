"""Tests of features() and layer_calls()."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.internals import features, layer_calls
from tests.attribution.networks import RecurrentModel, ResidualNetwork, TokenTransformer


def convolutional_network(inplace: bool = True) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(inplace), nn.Flatten(), nn.Linear(64, 3)).eval()


def test_features_before_in_place_layer_are_values_before_overwrite() -> None:
    model, x = convolutional_network(), torch.randn(2, 1, 6, 6)
    result = features(model, x, "0")
    assert torch.equal(torch.from_numpy(result.values), model[0](x))
    assert result.values.min() < 0
    assert (result.layout, result.channels, result.maps.shape) == ("maps", 1, (2, 4, 4, 4))


def test_features_input_side_of_in_place_layer_is_value_before_overwrite() -> None:
    model, x = convolutional_network(), torch.randn(2, 1, 6, 6)
    result = features(model, x, model[1], side="input")
    assert torch.equal(torch.from_numpy(result.values), model[0](x))


def test_features_of_module_called_twice_selects_call() -> None:
    model, x = ResidualNetwork().eval(), torch.randn(2, 1, 6, 6)
    first, second = (features(model, x, "relu", call=call).values for call in (0, 1))
    assert torch.equal(torch.from_numpy(first), model.stem(x).relu())
    assert abs(first - second).max() > 0
    with pytest.raises(SetupError, match="call is 2; expected 0 to 1"):
        features(model, x, "relu", call=2)


def test_layer_calls_are_in_call_order_and_name_same_outputs() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), nn.Dropout(), nn.Linear(3, 2))
    calls = layer_calls(model, torch.randn(5, 4))
    assert [call.title for call in calls.distinct] == ["0.0", "0.1", "2"]
    assert {call.title: call.same_output_as for call in calls.calls if call.same_output_as} == {
        "0": "0.1",
        "1": "0.1",
        "the model": "2",
    }


def test_layer_calls_output_overwritten_in_place_counts_as_distinct() -> None:
    calls = layer_calls(convolutional_network(), torch.randn(1, 1, 6, 6))
    assert [call.title for call in calls.distinct] == ["0", "1", "2", "3"]


def test_features_piece_selects_tensor_of_tuple_output() -> None:
    model, x = RecurrentModel().eval(), torch.randn(2, 5, 2)
    states, last = model.gru(x)
    assert torch.equal(torch.from_numpy(features(model, x, "gru").values), states)
    result = features(model, x, "gru", piece="[1]")
    assert torch.equal(torch.from_numpy(result.values), last.transpose(0, 1))
    assert result.pieces == {"[0]": (5, 6), "[1]": (1, 6)}
    with pytest.raises(SetupError, match=r"piece is 'h'; expected one of '\[0\]', '\[1\]'"):
        features(model, x, "gru", piece="h")


def test_features_of_packed_sequence_are_padded() -> None:
    class PackedModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.RNN(2, 3, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, [x.shape[1]] * len(x), batch_first=True)
            return self.rnn(packed)[1][0]

    model, x = PackedModel(), torch.randn(2, 4, 2)
    assert torch.allclose(torch.from_numpy(features(model, x, "rnn").values), model.rnn(x)[0])


def test_features_maps_of_tokens_and_series_are_units_by_positions() -> None:
    tokens = features(TokenTransformer(), torch.randint(20, (2, 6)), "block.linear1")
    assert (tokens.layout, tokens.maps.shape) == ("sequence", (2, 16, 6))
    model = nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2))
    assert features(model, torch.randn(2, 2, 5), "1").maps.shape == (2, 3, 3)


def test_features_mark_silent_and_dead_channels() -> None:
    model = convolutional_network(False)
    with torch.no_grad():
        model[0].weight[0], model[0].bias[0] = 0, -1
        model[0].weight[1], model[0].bias[1] = 1, 0
    x = -torch.ones(1, 1, 6, 6)
    result = features(model, x, "1")
    assert result.marks[0][:2] == ["silent", "silent"]
    result = features(model, x, "1", background=torch.cat([x, -x]), labels=[0, 1])
    assert result.marks[0][:2] == ["dead", "silent"]
    assert "1 of 4 channels are dead: zero on the whole background" in str(result)
    assert result.channel_statistics is not None
    assert result.channel_statistics.for_class(1)[2] == 1
    assert result.channel_statistics.for_class(1)[0][1] == pytest.approx(9)
    assert result.channel_statistics.for_class()[0][1] == pytest.approx(4.5)


def test_features_mark_saturated_channels() -> None:
    model = nn.Sequential(nn.Linear(1, 3), nn.Sigmoid(), nn.Linear(3, 1))
    with torch.no_grad():
        model[0].weight[:], model[0].bias[:] = 0, torch.tensor([9.0, 0.0, -9.0])
    assert features(model, torch.zeros(1, 1), "1").marks == [["saturated", "", "saturated"]]


def test_features_of_uncalled_or_unknown_layer_raise_setup_error() -> None:
    tokens = torch.randint(20, (2, 6))
    assert layer_calls(TokenTransformer(), tokens).uncalled == ("block.self_attn.out_proj",)
    with pytest.raises(SetupError, match=r"'block.self_attn.out_proj' is never called; expected a layer such as"):
        features(TokenTransformer(), tokens, "block.self_attn.out_proj")
    with pytest.raises(SetupError, match="'nothing', which is not in the model"):
        features(TokenTransformer(), tokens, "nothing")


def test_features_of_torchscript_raise_and_layer_calls_note_it() -> None:
    model, x = convolutional_network(), torch.randn(1, 1, 6, 6)
    with pytest.raises(SetupError, match="model is TorchScript"):
        features(torch.jit.trace(model, x), x)
    model[0] = torch.jit.trace(model[0], x)
    assert "TorchScript, which cannot be inspected: 0." in layer_calls(model, x).notes


def test_features_of_compiled_layer_match_eager_output() -> None:
    model, x = convolutional_network(), torch.randn(1, 1, 6, 6)
    model[1].compile(backend="eager")
    result = features(model, x, "1")
    assert torch.equal(torch.from_numpy(result.values), model[0](x).relu())


def test_features_without_sample_axis_raise_setup_error() -> None:
    class PositionalModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.position, self.head = nn.Embedding(6, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head((x + self.position(torch.arange(6))).mean(1))

    assert layer_calls(PositionalModel(), torch.randn(3, 6, 4)).calls_of("position")[0].shape == (6, 4)
    with pytest.raises(SetupError, match=r"gives \(6, 4\) for 3 samples"):
        features(PositionalModel(), torch.randn(3, 6, 4), "position")
