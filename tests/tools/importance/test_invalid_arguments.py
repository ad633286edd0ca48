@pytest.fixture(scope="module")
def importance_result() -> Importance:
    return nbdebug.importance(linear_model(), LOADER, loss_fn=nn.CrossEntropyLoss(), samples=12, repeats=1)


IMPORTANCE_CALLS: list[tuple[str, Callable[[Any], Any]]] = [
    ("feature", lambda result: result.feature_index(True)),
    ("feature", lambda result: result.skill_alone([0])),
    ("feature", lambda result: result.interacts_with(None)),
    ("names", lambda result: nbdebug.drift([result, result], names=3)),
    ("names", lambda result: result.compare(result, names="ab")),
    ("by", lambda result: nbdebug.drift([result, result], by=[0])),
    ("ax", lambda result: result.plot("x")),
]


@pytest.mark.parametrize(("argument", "call"), IMPORTANCE_CALLS, ids=[argument for argument, _ in IMPORTANCE_CALLS])
def test_importance_method_names_its_invalid_argument(
    importance_result: Importance, argument: str, call: Callable[[Importance], Any]
) -> None:
    with pytest.raises(SetupError, match=f"^{argument}") as error:
        call(importance_result)
    assert MESSAGE_FORM.fullmatch(str(error.value))


@pytest.mark.parametrize(
    "options", [{"decode": 3}, {"score": "x"}, {"method": [0]}, {"samples": True}, {"loader": [0]}]
)
def test_importance_with_invalid_option_raises_setup_error(explanation: Explanation, options: dict[str, Any]) -> None:
    with pytest.raises(SetupError) as error:
        Debugger.of(explanation.setup_or_model).importance(**{"samples": 8, "repeats": 0, **options})
    assert MESSAGE_FORM.fullmatch(str(error.value))


