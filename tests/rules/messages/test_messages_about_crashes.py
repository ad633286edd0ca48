"""Tests that the numbers and shapes in the explanations of crashes are those of the program.

The programs have batches of 16 samples with 4 features and 3 classes, and a hidden layer of 8 units.
"""

from __future__ import annotations

import pytest
import torch

from tests.rules.messages.program import Fact, Program, check_numbers

NUMBERS: dict[str, tuple[Fact, ...]] = {
    "X1001": (5, 4, 16, 4),
    "X1002": (16, 4, 1, 16, 4, 1),
    "X1003": (3, 16, 8, 8, 3),
    "X1004": (16, 1, 4, 16, 1, 2, -1),
    "X1005": (0, 16, 3, 16, 5),
    "X1006": (16, 4, 64, -1, 5, 5),
    "X1007": (6, 1, 16, 8),
    "X1008": (1, 16, 8, 1, 8, 8),
    "X1009": (16, 4),
    "X1012": (3, 3, 3, 0, 2, 1, 3),
    "X1013": (16, 4, 1, 4, 0, 3, 4),
    "X1014": (16, 4),
    "X1015": (1, 16),
    "X1016": (16,),
    "X1017": (1, 16, 3, 16, 1),
    "X1018": (16, 16),
    "X1019": (),
    "X1020": (),
    "X1021": (16, 3),
    "X1022": (8, 4),
    "X1023": (16, 3),
    "X1024": (1, 8),
    "X1025": (4, 2, 3),
    "X1026": (0, 0, 2),
    "X1027": (),
    "X1028": (),
    "X1029": (),
    "X1030": (),
    "X1031": (3,),
    "X1033": (0, 16, 8, 1, 0, 1, 8, 1, 1, 1, 8),
    "X1034": (0,),
    "X1035": (2**50 * 4 / 2**30, 2, 50),
    "X1036": (),
    "X1037": (0, 0),
    "X1038": (0, 0, 1, 16, 3, 2, 1),
    "X1040": (),
    "X1041": (6, 4, 4, 6),
    "X1042": (2, 3, 16, 3),
    "X1043": (1, 2),
    "X1044": (16, 4),
    "X1045": (1,),
    "X1046": (),
    "X1047": (3, 4, 4, 3),
    "X1048": (16, 3),
    "X1049": (60, 40, 20, 64),
    "X1050": (16, 1),
    "X1051": (),
    "X1053": (7, 4, 16, 1, 4),
    "X1054": (4, 16, 1, 4, 3),
    "X1055": (8, 4, 16, 3, 4),
    "X1099": (4, 5),
}


def first_large_token(program: Program) -> list[Fact]:
    tokens = program.batch[0]
    row, column = (tokens >= 8).nonzero()[0].tolist()
    return [8, 0, 7, tokens[row, column].item(), row, column]


def logits(program: Program) -> list[Fact]:
    low, high = (3 * program.model(program.batch[0])[:, 0]).aminmax()
    return [16, low.item(), high.item()]


def scales(program: Program) -> list[Fact]:
    low, high = torch.aminmax(program.model(program.batch[0]) - 5)
    return [5, 16, 3, low.item(), high.item()]


FACTS = {code: lambda program: NUMBERS[program.code] for code in NUMBERS} | {
    "X1011": first_large_token,
    "X1039": logits,
    "X1052": scales,
}


@pytest.mark.parametrize("code", FACTS)
def test_numbers_in_explanations_of_crashes_are_facts(code: str) -> None:
    check_numbers(code, FACTS)
