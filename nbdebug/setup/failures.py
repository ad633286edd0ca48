"""Torch's own errors in a forward pass, with what to do about them."""

from __future__ import annotations

import re

from nbdebug.exceptions import SetupError

UNSPLIT = "Say how to split a batch: unpack=lambda batch: (inputs, target)"
KNOWN = (
    (
        r"mat1 and mat2 shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)",
        "a layer that takes {0} features, not {1}. Set its in_features to {0}",
    ),
    (
        r"[Ee]xpected all tensors to be on the same device|not on the expected device|Input type .*cuda.*weight type",
        "one device for model and data. Call model.to(device), and move each batch there",
    ),
    (r"expected (?:target dtype to be|scalar type) Long", "class indices. Convert them where they are read: y.long()"),
    (
        r"Input type \((?:unsigned char|\S*Byte\S*)\)|(?:Byte|Long|Int|unsigned char|long).*(?:same dtype|[Ff]loat)"
        r"|[Ff]loat.*(?:Byte|Long|unsigned char)",
        "inputs of the dtype of the weights. Convert them where they are read: x.float(), and images by 255",
    ),
    (
        r"index out of range in self|indexSelect|srcIndex < srcSelectDimSize",
        "indices from 0 to num_embeddings - 1. Print x.min() and x.max(), and give the embedding x.max() + 1 entries",
    ),
    (
        r"device-side assert",
        "class and token indices in range. Restart the kernel, and run one batch on the CPU to see which is not",
    ),
    (
        r"[Ee]xpected more than 1 value per channel",
        "more than one sample for batch normalization. Use a larger batch, or drop_last=True",
    ),
    (r"takes \d+ positional arguments? but \d+ (?:was|were) given", f"a batch of what forward takes. {UNSPLIT}"),
    (r"missing \d+ required positional argument", f"all that forward takes. {UNSPLIT}"),
)


def refusal(error: Exception, said: str) -> SetupError:
    """An error that repeats what was raised and names the next act; ``said`` is the sentence about it."""
    for pattern, act in KNOWN:
        if match := re.search(pattern, str(error), re.DOTALL):
            return SetupError(f"{said}; expected {act.format(*match.groups())}.")
    return SetupError(f"{said}; expected a loss. Run model and loss on next(iter(train_loader)) to see it alone.")
