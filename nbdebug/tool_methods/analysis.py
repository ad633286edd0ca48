"""Tools that inspect data and predictions, as methods of a Debugger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.options import check_option_names
from nbdebug.tool_methods.tool_runner import ToolRunner, without_self
from nbdebug.validation import describe_type

if TYPE_CHECKING:
    from pathlib import Path

    from nbdebug.inference.outputs import Target
    from nbdebug.options import Decode, Method, Metric, Package, Space
    from nbdebug.tools.data import DataProfile
    from nbdebug.tools.errors import Errors
    from nbdebug.tools.explain import Explanation
    from nbdebug.tools.importance import Importance
    from nbdebug.tools.try_fix import TriedFix


class AnalysisMethods(ToolRunner):
    """Each tool that inspects data and predictions, run on the setup."""

    @check_option_names()
    def data(
        self,
        *,
        samples: int | None = 2000,
        seconds: float = 20.0,
        seed: int = 0,
        reference: Any = None,
        pred_probs: Any = None,
        embed: bool | str | nn.Module | Callable[[Any], Tensor] = False,
        groups: Any = None,
        ratings: Any = None,
        windows: int | None = None,
    ) -> DataProfile:
        """Profile what enters the model: structure, statistics, drift, duplicates and suspect labels of both splits.

        The order of the loaders is untouched. Raises SetupError for a loader that is empty or cannot be read.

        Args:
            samples: Number of samples of each split, drawn at random if they can be read by index; None for all.
            seconds: Time limit of reading, in seconds; with ``samples=None``, only for loaders of unknown length.
            seed: Seed of the draw.
            reference: A loader of other data, with which the training split is compared too.
            pred_probs: Out-of-sample class probabilities, one row for each sample of the training dataset, or a dict
                of them by split, "train" or "val". Suspect labels then come from them.
            embed: Find suspect labels by learners on embeddings of the model instead of the inputs, and search them for
                near copies too: True for the input of the last linear layer, a layer, or its path, whose output is
                used, or a function of the inputs of a batch that returns a row for each sample.
            groups: The source of each sample, such as its subject, recording or document: a dict by split, "train" and
                "val", with a value for each sample of the dataset, or a list for the dataset that both splits are
                subsets of. Without it, sources are guessed from names and from the order of the samples.
            ratings: The classes that several raters chose: a row for each sample of the training dataset and a column
                for each rater, NaN where missing, or a dict of them by split. The labels are compared with their
                consensus.
            windows: Number of windows of the training split, in the order of its dataset, that are compared with each
                other, to find drift over time; None for no such comparison.
        """
        options = without_self(locals())
        from nbdebug.tools.data import data

        return self._keep("data", data(self._use_setup(), **options, browse=self._browse_split), judge=False)

    def _browse_split(self, split: str) -> Errors:
        """Return the last error browser if it shows a split, or predict the split after a click on a page."""
        from nbdebug.tools.errors import Errors, errors

        browser, dataset = self.results.get("errors"), getattr(self.setup.resolve_loader(split), "dataset", None)
        if isinstance(browser, Errors) and browser.setup is not None and browser.dataset is dataset:
            return browser
        return self._keep("errors", errors(self.setup, split, try_labels=self._try_labels_from_page))

    @check_option_names()
    def label_effect(
        self,
        k: int | None = None,
        *,
        tag: str | None = None,
        errors: Errors | None = None,
        action: Literal["relabel", "remove"] = "relabel",
        steps: int = 300,
        seeds: int = 5,
        initialize: bool = True,
    ) -> TriedFix:
        """Train copies with and without doubtful training labels, and compare the validation score.

        They are the suspects of the last ``data()``, which runs now if it has not; or, with ``tag`` or ``errors``, the
        samples that were tagged in an error browser of the training data. Weights, optimizers and loaders are as
        before. Raises SetupError if no label would change, without a validation loader, and if the targets are not
        classes.

        Args:
            k: Number of suspects, the most suspect first; all suspects if it is left out.
            tag: A tag; the samples with any tag if only ``errors`` is passed.
            errors: Result of ``errors("train")``, by default the last one.
            action: "relabel" the samples with the predicted classes, or "remove" them.
            steps: Number of steps that each copy is trained.
            seeds: Number of pairs of copies; both of a pair start from the same weights.
            initialize: Start from new weights; False starts from the present ones, as for fine-tuning.
        """
        options = without_self(locals())
        from nbdebug.tools.try_fix import label_effect

        source = self._source_of_doubtful_labels(k, tag, options.pop("errors"))
        return self._keep("label_effect", label_effect(self._use_setup(), source, **options), judge=False)

    def _source_of_doubtful_labels(self, k: int | None, tag: str | None, errors: Any) -> DataProfile | Errors:
        """Return the error browser whose tags are meant, or the profile of the data."""
        from nbdebug.tools.data import DataProfile
        from nbdebug.tools.errors import Errors

        if tag is None and errors is None:
            profile = self.results.get("data")
            return profile if isinstance(profile, DataProfile) else self.data()
        if k is not None:
            raise SetupError(f"k is {k!r} with tagged samples; expected None, since k counts suspects. Leave it out.")
        browser = self.results.get("errors") if errors is None else errors
        if not isinstance(browser, Errors):
            raise SetupError(
                f"errors is {describe_type(browser)}; expected an error browser of the training data. "
                'Call dbg.errors("train") and tag its samples.'
            )
        return browser

    @check_option_names()
    def errors(
        self,
        loader: Any = None,
        *,
        index: Any = None,
        metadata: Any = None,
        properties: bool = True,
        embed: str | nn.Module | None = None,
        render: Callable[[Any], Any] | None = None,
        decode: Decode = None,
        tags: str | Path | None = None,
    ) -> Errors:
        """Browse the errors of the model on a loader, and the samples behind each number.

        Raises SetupError for a setup that cannot be run.

        Args:
            loader: "val", "train" or a loader; by default the validation loader, if there is one.
            index: Dataset indices of the samples, for a loader that does not provide them.
            metadata: A DataFrame or a mapping of columns, with one row per sample of the dataset.
            properties: Measure brightness, length and similar properties of the inputs.
            embed: A layer, or its path, whose output is kept as an embedding.
            render: ``render(sample)``, which displays a sample.
            decode: A function or a sequence that turns token ids into text.
            tags: Path of a CSV file that stores tags and notes.
        """
        options = without_self(locals())
        from nbdebug.tools.errors import errors

        return self._keep("errors", errors(self._use_setup(), **options, try_labels=self._try_labels_from_page))

    def _try_labels_from_page(self, browser: Errors, tag: str, action: Any) -> TriedFix:
        """Train copies with and without the labels of a tag after a click on the page of an error browser."""
        from nbdebug.tools.try_fix import label_effect

        return self._keep("label_effect", label_effect(self.setup, browser, tag=tag, action=action), judge=False)

    @check_option_names()
    def explain(
        self,
        sample: Any,
        method: Method = "auto",
        target: Target = "predicted",
        *,
        background: Any = "data",
        loader: Any = None,
        space: Space = "logits",
        score: Callable[[Any], Any] | None = None,
        decode: Any = None,
        completeness: float | None = None,
        error: float | None = None,
        standard_error: float | None = None,
        nodes: int | None = None,
        most: int | None = None,
        layer: str | nn.Module | None = None,
        size: int | None = None,
        stride: int | None = None,
        samples: int | None = None,
        passes: int | None = None,
        permutations: int | None = None,
        evaluations: int | None = None,
        package: Package | None = None,
    ) -> Explanation:
        """Explain a prediction: the contribution of each input value, with its error and a reliability check.

        An option of one method is refused by others; None is its default. Raises SetupError for unusable samples.

        Args:
            sample: Index of a sample in the dataset of ``loader``, several indices, or a sample itself.
            method: Attribution method; "auto" chooses one for the model.
            target: "predicted", "true", or the index or name of a class.
            background: Samples to compare with, or "data" (training samples), "mean", "zeros" or "shuffled".
            loader: "val", "train" or a loader; by default the validation loader, if there is one.
            space: Explain "logits" or the "probability".
            score: ``score(output)``, which returns samples × classes of an output of another form.
            decode: A function, a tokenizer, a list or a dictionary that turns token ids into text.
            completeness: Largest relative error of the sum, 0.01 by default (expected_gradients, integrated_gradients).
            error: Largest relative error, 0.03 (expected_gradients, integrated_gradients) or 0.05 (shapley) by default.
            standard_error: Largest relative standard error of a sampled background, 0.05 by default
                (expected_gradients, integrated_gradients).
            nodes: Initial quadrature nodes per line, 6 by default (expected_gradients, integrated_gradients).
            most: Largest number of nodes per line, 128 or more by default (expected_gradients, integrated_gradients).
            layer: The layer or its path, by default the last suitable one (gradcam).
            size: Side of a patch in pixels or steps, by default 1/8 of the longest side (occlusion, lime).
            stride: Distance of patches in pixels or steps, by default half of ``size`` (occlusion).
            samples: Number of perturbations, 1000 by default for lime (lime, kernel).
            passes: Initial passes over the background, 2 by default (shapley).
            permutations: Number of feature permutations, 10 by default (permutation).
            evaluations: Number of model evaluations, 500 by default (partition).
            package: "captum" or "shap"; by default the first that is installed (deepshap).
        """
        options = without_self(locals())
        from nbdebug.tools.explain import explain

        return self._keep("explain", explain(self._use_setup(), **options), judge=False)

    @check_option_names()
    def importance(
        self,
        loader: Any = None,
        *,
        samples: int | None = None,
        background: Any = None,
        target: Target = "predicted",
        method: Method = "auto",
        metric: Metric = "auto",
        repeats: int = 5,
        decode: Any = None,
        score: Callable[[Any], Any] | None = None,
    ) -> Importance:
        """Measure feature importance: mean attributions and permutation importance, with 95 % intervals.

        ``compare(before)`` of the result shows what has changed. Raises SetupError for options that cannot be used.

        Args:
            loader: "val", "train" or a loader; by default the validation loader, if there is one.
            samples: Number of samples, by default 500, or fewer of large ones.
            background: Samples to compare with; by default 100 training samples.
            target: "predicted", "true" or a class.
            method: Attribution method; "auto" chooses one for the model.
            metric: "accuracy", "R²" or "loss" (negated); "auto" chooses one by the task.
            repeats: Number of permutations of each feature; 0 for none.
            decode: A function, a tokenizer, a list or a dictionary that turns token ids into text.
            score: ``score(output)``, which returns samples × classes of an output of another form.
        """
        options = without_self(locals())
        from nbdebug.tools.importance import importance

        return self._keep("importance", importance(self._use_setup(), **options))
