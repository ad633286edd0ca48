"""Tests of D126 for encoder-decoders whose decoder reads the target itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.data.targets_not_shifted import token_cross_entropy
from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

SOURCE = torch.randint(0, 10, (64, 6), generator=torch.Generator().manual_seed(0))
TARGET = SOURCE.sort(1).values
LISTS = TensorDataset(SOURCE, TARGET, TARGET)


class Lists(Dataset[tuple[Tensor, Tensor, Tensor]]):
    def __len__(self) -> int:
        return len(SOURCE)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        ordered = TARGET[index]
        return SOURCE[index], ordered, ordered


class Decoder(nn.Module):
    """A decoder with an encoder, or with a second number beside each token."""

    def __init__(self, tokens: int, reads_whole: bool) -> None:
        super().__init__()
        self.source, self.embed, self.reads_whole = nn.Embedding(13, 8), nn.Embedding(tokens, 8), reads_whole
        self.encoder, self.body = nn.GRU(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 13)

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        source, states = self.source(source), self.embed(tokens)
        if self.reads_whole:
            return self.head(self.body(states, self.encoder(source)[1])[0])
        return self.head(self.body(states + source)[0])


class PassingDecoder(Decoder):
    def feed(self, tokens: Tensor) -> Tensor:
        fed = tokens  # unchanged
        return fed

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        return super().forward(source, self.feed(tokens))


def cut_twice(samples: list[tuple[Tensor, ...]]) -> tuple[Tensor, Tensor, Tensor]:
    source, marks = (torch.stack(part) for part in list(zip(*samples, strict=True))[:2])
    told, wanted = marks[:, 1:], marks[:, 1:]
    return source, told, wanted


CASES = {
    "samples": (Lists(), 11, "return SOURCE[index], torch.cat([torch.tensor([10]), ordered[:-1]]), ordered", [10]),
    "arrays": (LISTS, 11, "torch.cat([torch.full((len(target), 1), 10), target[:, :-1]], dim=1)", [10]),
    "no unused row": (Lists(), 10, "torch.cat([torch.tensor([start]), ordered[:-1]])", []),
}


def setup_of(data: Dataset[tuple[Tensor, ...]], model: nn.Module) -> Setup:
    return Setup(model, DataLoader(data, batch_size=32, shuffle=True), loss_fn=token_cross_entropy)


@pytest.mark.parametrize("name", CASES)
def test_decoder_input_that_equals_the_target_gets_a_start_token_on_the_axis_of_its_place(name: str) -> None:
    data, tokens, fix, unused = CASES[name]
    (finding,) = checkup_findings(setup_of(data, Decoder(tokens, reads_whole=True)), "D126")
    assert fix in finding.fix
    assert finding.evidence["unused tokens"] == unused
    assert len(finding.edits) == (name == "samples")


@pytest.mark.parametrize(
    ("model", "collate", "source"),
    [
        (PassingDecoder(11, reads_whole=True), None, "fed = tokens  # unchanged"),
        (Decoder(11, reads_whole=True), cut_twice, "told, wanted = marks[:, 1:], marks[:, 1:]"),
        (Decoder(11, reads_whole=True), None, "return SOURCE[index], ordered, ordered"),
    ],
    ids=["function of the model", "collate function", "dataset"],
)
def test_decoder_input_is_placed_where_it_is_not_shifted(model: nn.Module, collate: Any, source: str) -> None:
    data = Lists() if collate is None else TensorDataset(SOURCE, TARGET)
    setup = Setup(model, DataLoader(data, batch_size=32, collate_fn=collate), loss_fn=token_cross_entropy)
    (finding,) = checkup_findings(setup, "D126")
    assert source in (finding.where.source or "")


def test_second_number_of_each_token_makes_no_encoder() -> None:
    (finding,) = checkup_findings(setup_of(Lists(), Decoder(11, reads_whole=False)), "D126")
    assert "unused tokens" not in finding.evidence


PAD, START = 0, 1
_Step = Callable[[nn.Module, Tensor, Tensor], Tensor]


@pytest.fixture(autouse=True)
def no_compiled_code() -> None:
    """Forget what other tests have compiled, since a step is traced only if nothing is."""
    torch._dynamo.reset()


class Attending(nn.Module):
    """A transformer whose decoder has a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.positions = nn.Embedding(13, 16), nn.Parameter(0.1 * torch.randn(9, 16))
        self.core = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 13)

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        source, tokens = (self.embed(part) + self.positions[: part.shape[1]] for part in (source, tokens))
        return self.head(self.core(source, tokens, tgt_mask=mask))


class Recurrent(nn.Module):
    """A recurrent network that reads one sequence or several in step, in one direction or both."""

    def __init__(self, parts: int = 1, both: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(13, 8)
        self.body = nn.GRU(8 * parts, 8, batch_first=True, bidirectional=both)
        self.head = nn.Linear(16 if both else 8, 13)

    def forward(self, *parts: Tensor) -> Tensor:
        return self.head(self.body(torch.cat([self.embed(part) for part in parts], -1))[0])


class Compressing(nn.Module):
    """An autoencoder of sequences, whose decoder has the last state of the encoder only."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(13, 8), nn.Linear(8, 13)
        self.encoder, self.decoder = nn.GRU(8, 8, batch_first=True), nn.GRU(8, 8, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        code = self.encoder(self.embed(tokens))[1][0]
        return self.head(self.decoder(code.unsqueeze(1).expand(-1, tokens.shape[1], -1))[0])


def score(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), target, ignore_index=PAD)


def seq2seq_sample(copies: bool = False, repeats: bool = False) -> TensorDataset:
    source = torch.randint(3, 6 if repeats else 13, (64, 7), generator=torch.Generator().manual_seed(0))
    words = source if copies else source.sort(1).values
    if repeats:
        words = words[:, :1].expand_as(words).clone()
    start, end = torch.full((64, 1), START), torch.full((64, 1), 2)
    return TensorDataset(source, torch.cat([start, words, end], 1))


def decoder_findings(
    model: nn.Module, step: _Step, data: TensorDataset | None = None, *, has_checkup: bool = True
) -> list[Finding]:
    """Return what D126 finds in a watched loop."""
    loader = DataLoader(data or seq2seq_sample(), batch_size=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(ignore_index=PAD), optimizer=optimizer)
    if has_checkup:
        debugger.checkup()
    with debugger.watch() as run:
        for source, target in loader:
            optimizer.zero_grad()
            step(model, source, target).backward()
            optimizer.step()
    assert not run.error_summary
    return [finding for finding in debugger.findings if finding.code == "D126" and finding.severity != "note"]


def forced_with_the_answer(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    read = target[:, 1:]
    return score(model(source, read), target[:, 1:])


def forced_with_a_copy(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    wanted = target[:, 1:]
    read = wanted.clone()
    read = read.contiguous()
    return score(model(source, read), wanted)


def language_model_of_its_answer(model: nn.Module, _: Tensor, target: Tensor) -> Tensor:
    tokens = target[:, 1:]
    return score(model(tokens), tokens)


def language_model_shifted_back(model: nn.Module, _: Tensor, target: Tensor) -> Tensor:
    tokens = target[:, 1:]
    return score(model(tokens), target[:, :-1])


def tags_as_features(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    words, tags = source + 0, target[:, 1:-1]
    return score(model(words, tags), tags)


def forced_with_the_tensor_of_the_loader(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return score(model(source, target), target)


LEAKING: dict[str, tuple[Callable[[], nn.Module], _Step, str]] = {
    "transformer": (Attending, forced_with_the_answer, "read = target[:, 1:]"),
    "recurrent decoder": (lambda: Decoder(13, True), forced_with_the_answer, "read = target[:, 1:]"),
    "tensor of the loader": (
        Attending,
        forced_with_the_tensor_of_the_loader,
        "loader = DataLoader(data or seq2seq_sample(), batch_size=16)",
    ),
    "copy of the target": (Attending, forced_with_a_copy, "read = wanted.clone()"),
    "language model": (Recurrent, language_model_of_its_answer, "tokens = target[:, 1:]"),
    "wrong direction": (Recurrent, language_model_shifted_back, "tokens = target[:, 1:]"),
    "tags as features": (lambda: Recurrent(2), tags_as_features, "words, tags = source + 0, target[:, 1:-1]"),
}


@pytest.mark.parametrize("name", LEAKING)
def test_argument_that_the_loop_makes_of_the_target_is_reported_at_its_line(name: str) -> None:
    torch.manual_seed(0)
    model, step, source = LEAKING[name]
    (finding,) = decoder_findings(model(), step)
    assert finding.where.source is not None
    assert finding.where.source.strip() == source


def test_fix_of_a_decoder_input_that_the_loop_makes_has_a_batch_axis() -> None:
    (finding,) = decoder_findings(Attending(), forced_with_the_answer)
    assert "torch.cat([torch.full((len(target), 1), start), target[:, :-1]], dim=1)" in finding.fix


def echo_in_the_call(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    logits = model(source, target[:, :-1])
    return score(logits, target[:, :-1])


def echo_of_torch(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    logits = model(source, target[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), target[:, :-1].flatten())


def echo_of_a_variable(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    read = target[:, :-1]
    logits = model(source, read)
    return F.cross_entropy(logits.flatten(0, 1), read.flatten())


def echo_of_two_variables(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    read, wanted = target[:, :-1], target[:, :-1]
    logits = model(source, read)
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())


def echo_of_two_lines(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    read = target[:, :-1]
    wanted = target[:, :-1]
    return score(model(source, read), wanted)


def echo_of_whole_rows(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    tokens = target + 0
    logits = model(source, tokens)
    return score(logits, tokens)


def echo_in_one_line(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return score(model(source, target[:, :-1]), target[:, :-1])


def echo_without_a_start_token(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    words = target[:, 1:]
    logits = model(source, words[:, :-1])
    return score(logits, words[:, :-1])


def echo_of_a_language_model(model: nn.Module, _: Tensor, target: Tensor) -> Tensor:
    inputs = target[:, :-1]
    logits = model(inputs)
    return F.cross_entropy(logits.flatten(0, 1), inputs.flatten())


_IN_CALL = "return score(logits, target[:, :-1])"
_CUTS = "inputs, targets = tokens[:, :-1], tokens[:, 1:]"
# By name: the model, the step, the line to name, what the fix contains, and the number of edits.
ECHOES: dict[str, tuple[Callable[[], nn.Module], _Step, str, str, int]] = {
    "in the call": (Attending, echo_in_the_call, _IN_CALL, "score(logits, target[:, 1:])", 1),
    "loss of torch": (Attending, echo_of_torch, "target[:, :-1].flatten())", "target[:, 1:].flatten())", 1),
    "variable": (Attending, echo_of_a_variable, "read.flatten())", "target[:, 1:].flatten())", 1),
    "two variables": (
        Attending,
        echo_of_two_variables,
        "read, wanted = target[:, :-1], target[:, :-1]",
        "read, wanted = target[:, :-1], target[:, 1:]",
        1,
    ),
    "two lines": (Attending, echo_of_two_lines, "wanted = target[:, :-1]", "wanted = target[:, 1:]", 1),
    "recurrent": (lambda: Decoder(13, True), echo_in_the_call, _IN_CALL, "target[:, 1:]", 1),
    "whole rows": (Attending, echo_of_whole_rows, "batch_size=16)", _CUTS, 0),
    "one line": (
        Attending,
        echo_in_one_line,
        "return score(model(source, target[:, :-1]), target[:, :-1])",
        _CUTS,
        0,
    ),
    "no start token": (
        Attending,
        echo_without_a_start_token,
        "return score(logits, words[:, :-1])",
        "score(logits, words[:, 1:])",
        1,
    ),
    "language model": (Recurrent, echo_of_a_language_model, "inputs.flatten())", "target[:, 1:].flatten())", 1),
}


@pytest.mark.parametrize("name", ECHOES)
def test_target_is_at_fault_where_the_input_has_a_start_token_or_lacks_the_last_one(name: str) -> None:
    torch.manual_seed(0)
    model, step, source, fix, edits = ECHOES[name]
    (finding,) = decoder_findings(model(), step)
    assert (finding.where.source or "").strip().endswith(source)
    assert "the target must start one token later" in finding.cause
    assert fix in finding.fix
    assert len(finding.edits) == edits


def test_input_without_a_start_token_is_at_fault() -> None:
    torch.manual_seed(0)
    (finding,) = decoder_findings(Attending(), forced_with_the_answer)
    assert "lacks a start token" in finding.cause
    assert finding.edits == ()


def forced(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return score(model(source, target[:, :-1]), target[:, 1:])


def masked(model: nn.Module, source: Tensor, _: Tensor) -> Tensor:
    hidden = torch.rand(source.shape) < 0.3
    return score(model(source.masked_fill(hidden, 2)), source.masked_fill(~hidden, PAD))


def denoising(model: nn.Module, source: Tensor, _: Tensor) -> Tensor:
    noisy = torch.where(torch.rand(source.shape) < 0.2, torch.randint_like(source, 3, 13), source)
    return score(model(noisy), source)


def reconstructing(model: nn.Module, source: Tensor, _: Tensor) -> Tensor:
    tokens = source + 0
    return score(model(tokens), tokens)


def smoothed(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    logits = model(source, target[:, 1:-1].flip(1))
    return F.cross_entropy(logits.transpose(1, 2), target[:, 1:-1], label_smoothing=0.1)


def conditioned(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    labels = target[:, 3:4].expand(-1, 6)
    return score(model(source[:, :-1], labels), source[:, 1:])


HONEST: dict[str, tuple[Callable[[], nn.Module], _Step, dict[str, bool]]] = {
    "teacher forcing": (Attending, forced, {}),
    "repeated tokens": (Attending, forced, {"repeats": True}),
    "copying": (Attending, forced, {"copies": True}),
    "recurrent decoder that copies": (lambda: Decoder(13, True), forced, {"copies": True}),
    "masked language model": (lambda: Recurrent(both=True), masked, {}),
    "denoising": (Recurrent, denoising, {}),
    "autoencoder": (Compressing, reconstructing, {}),
    "reading in both directions": (lambda: Recurrent(both=True), reconstructing, {}),
    "label smoothing with a second sequence": (lambda: Recurrent(2), smoothed, {}),
    "conditioned on a label": (lambda: Recurrent(2), conditioned, {}),
}


@pytest.mark.parametrize("name", HONEST)
def test_arguments_that_the_loop_makes_without_the_answer_are_quiet(name: str) -> None:
    torch.manual_seed(0)
    model, step, options = HONEST[name]
    assert decoder_findings(model(), step, seq2seq_sample(**options)) == []


def test_decoder_input_of_a_loop_is_compared_with_its_target_without_a_checkup() -> None:
    (finding,) = decoder_findings(Attending(), forced_with_the_answer, has_checkup=False)
    assert "read = target[:, 1:]" in str(getattr(finding.where, "source", ""))
    assert decoder_findings(Attending(), forced, has_checkup=False) == []
