"""Small configurations of the model families of ``transformers``, made from their default ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

VOCABULARY, LAST_WORD = 128, 100  # tokens from LAST_WORD on are special: images, padding, borders
TEXT_LENGTH, MAX_LENGTH = 12, 64
_MAX_LAYERS = 8  # of patterns such as five local layers and a global one

_DEPTH = re.compile(r"(^|_)(n_?layers?|num_layers|layers|depth|num_blocks|n_layer|num_block)$|num_.*_layers$")
_WIDTH = re.compile(
    r"hidden|embed|model|dim|inner|ffn|intermediate|width|channel|rank|proj|n_embd|filters|d_ff|d_kv|units|"
    r"hidden_size|_size$|query_pre_attn_scalar|encoder_d|state_size"
)
_NO_WIDTH = re.compile(
    r"image|patch|vocab|kernel|window|stride|^max_|max_position|num_channels|in_chan|input_channels|type_|chunk|group|"
    r"sample|spatial|temporal|grid|crop|block_size|model_type|merge|rate|cache|pool|hop|n_fft|mel|bucket|reduction|"
    r"factor|expand|audio_channels|frame|codebook_size|out_channels$|feature_size$|latent_size|input_size|eos|bos|pad"
)
_MAIN_WIDTH = re.compile(r"^(hidden_size|d_model|n_embd|embed_dim|dim|model_dim|hidden_dim|width|embedding_size)$")
_HEADS = re.compile(
    r"^(num_attention_heads|num_heads|n_heads?|encoder_attention_heads|decoder_attention_heads|.*_heads)$"
)
_HEAD_WIDTH = re.compile(r"head_dim|d_kv|head_size|rope_dim|query_pre_attn_scalar|rotary_dim|attention_key_dim")
_INNER_WIDTH = re.compile(r"intermediate|ffn|inner|d_ff|mlp|feed")
_EXPERTS = re.compile(r"(num|n)(_\w+)?_experts$|num_local_experts")
_CHOSEN_EXPERTS = re.compile(r"top_?k$|moe_k$|per_tok|experts_per_token")
_LENGTHS = re.compile(
    r"max_position_embeddings|n_positions|n_ctx|max_seq|max_sequence|sliding_window|max_source|max_target"
)
_SPECIAL_TOKEN = re.compile(r"(token_id|token_index|token_ids|_id)$|^(bos|eos|pad)_")

# Follow from other values.
_DERIVED = {"transformers_version", "architectures", "id2label", "label2id", "stage_names", "out_features"}
_IMAGE_TOKEN = VOCABULARY - 1


@dataclass(frozen=True)
class Plan:
    """How far a configuration is reduced: all widths to ``width``, or divided by ``divisor``; images to ``image``."""

    name: str
    divisor: int
    width: int | None = None
    heads: int = 4
    image: int = 64
    patch: int | None = None


PLANS = (
    Plan("equal widths", 8, width=64, image=32, patch=8),
    Plan("widths by 16", 16),
    Plan("equal widths, images of 64", 8, width=64, image=64, patch=8),
    Plan("widths by 8", 8),
    Plan("heads of 128", 8, width=256, heads=2, image=64),
    Plan("widths by 4", 4, image=64),
    Plan("fewer layers", 1, image=64),
    Plan("widths by 4, images of 224", 4, image=224),
)


class Reduction:
    """Reduces one configuration; the same special token gets the same new number in every part."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._tokens: dict[int, int] = {}

    def reduce(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reduced values of a configuration and of the configurations inside it."""
        layers = {value for key, value in values.items() if _DEPTH.search(key) and isinstance(value, int) and value > 2}
        depth = _depth_with_all_types(values)
        kept = {key: value for key, value in values.items() if key not in _DERIVED}
        return {key: self._reduce_value(key, value, values, layers, depth) for key, value in kept.items()}

    def _reduce_value(self, key: str, value: Any, values: Mapping[str, Any], layers: set[int], depth: int) -> Any:
        if key == "per_layer_config" and isinstance(value, dict):
            return {layer: item for layer, item in value.items() if int(layer) < depth}
        if isinstance(value, dict):
            is_plain = "model_type" not in value and not key.endswith("_config")
            return self._reduce_rope(value, values) if is_plain else self.reduce(value)
        if value is None and re.search(r"^image_token_(id|index)$", key):
            return _IMAGE_TOKEN
        if value is None and key == "prediction_length":
            return 8
        if isinstance(value, float) and re.search(r"(width|depth)_(coefficient|multiplier)", key):
            return min(value, 0.35)
        if key == "initializer_range" and isinstance(value, float):
            return max(value, 0.01)  # some families start at 1e-10, to load weights
        if key == "backbone" and (isinstance(value, str) or values.get("model_type") == "timm_backbone"):
            return "test_resnet"  # of timm
        if isinstance(value, bool) or value is None or isinstance(value, (str, float)):
            return value
        if isinstance(value, (list, tuple)):
            return self._reduce_list(key, list(value), layers, depth)
        return self._reduce_number(key, value, depth) if isinstance(value, int) else value

    def _reduce_list(self, key: str, value: list[Any], layers: set[int], depth: int) -> list[Any]:
        if _SPECIAL_TOKEN.search(key):
            return [self._token(item) if isinstance(item, int) else item for item in value]
        if "out_indices" in key and layers:
            return value if len(value) == 1 and max(value) <= depth else list(range(depth - len(value) + 1, depth + 1))
        if len(value) in layers and len(value) > depth:
            value = value[:depth]
        if re.search(r"depths|layers_per|num_blocks|layer_depth", key) and all(isinstance(v, int) for v in value):
            return [min(item, 1) for item in value]
        if re.search(r"image_size|input_size|img_size", key):
            return [self.plan.image for _ in value]
        is_width = _WIDTH.search(key) and not _NO_WIDTH.search(key)
        if is_width and all(isinstance(item, int) for item in value):
            divisor = min(self.plan.divisor, 4)
            return [item if item < 32 else max(item // divisor, 8) for item in value]
        return value

    def _reduce_number(self, key: str, value: int, depth: int) -> int:
        if _SPECIAL_TOKEN.search(key) and "num" not in key:
            return self._token(value)
        simple: list[tuple[str | re.Pattern[str], Callable[[int], int]]] = [
            (r"vocab_size$|^vocab|num_tokens$", lambda v: min(v, VOCABULARY)),
            (r"image_size|img_size|input_size$", lambda v: min(v, self.plan.image)),
            (r"patch_size$", lambda v: min(v, self.plan.patch or v) if v > 4 else v),
            (_EXPERTS, lambda v: min(v, 4)),
            (_CHOSEN_EXPERTS, lambda v: min(v, 2)),
            (r"^n_group$|^topk_group$|num_expert_group", lambda v: 1),
            (_DEPTH, lambda v: min(v, depth)),
            (_LENGTHS, lambda v: min(v, MAX_LENGTH)),
            (r"num_codebooks|num_quantizers|num_query|num_queries|num_latents", lambda v: min(v, 4)),
            (r"upsample_groups$", lambda v: min(v, self.plan.width or max(v // self.plan.divisor, 1))),
            (r"num_frames", lambda v: min(v, 4)),
        ]
        for pattern, reduce in simple:
            if re.search(pattern, key):
                return reduce(value)
        return self._reduce_width(key, value)

    def _reduce_width(self, key: str, value: int) -> int:
        width = self.plan.width
        if _HEADS.search(key) and width is not None:
            return min(value, 2 if "key_value" in key or "kv" in key else self.plan.heads)
        if not _WIDTH.search(key) or _NO_WIDTH.search(key) or value < 16:
            return value
        if width is None:
            return max(value // self.plan.divisor, 2 if value < 64 else 8)
        if _HEAD_WIDTH.search(key):
            return width // self.plan.heads
        if "rank" in key:
            return min(value, 16)
        return min(value, 96 if _INNER_WIDTH.search(key) else width)

    def _reduce_rope(self, value: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """Scale the sections of a rotary embedding with the width of a head."""
        reduced: dict[str, Any] = {}
        for key, item in value.items():
            if isinstance(item, dict):
                reduced[key] = self._reduce_rope(item, values)
            elif "section" in str(key) and isinstance(item, (list, tuple)):
                reduced[key] = self._sections(list(item))
            else:
                reduced[key] = item
        return reduced

    def _sections(self, sections: list[int]) -> list[int]:
        total = (
            self.plan.width // self.plan.heads // 2
            if self.plan.width
            else max(sum(sections) // self.plan.divisor, len(sections))
        )
        parts = [max(1, total * item // sum(sections)) for item in sections[1:]]
        return [total - sum(parts), *parts]

    def _token(self, value: int) -> int:
        """Return the number of a special token in the small vocabulary."""
        if value < 0 or value < 4:
            return value
        return self._tokens.setdefault(value, max(_IMAGE_TOKEN - 1 - len(self._tokens), LAST_WORD))


def _depth_with_all_types(values: Mapping[str, Any]) -> int:
    """Return the number of layers after which every type of layer has occurred; at least 2."""
    types = values.get("layer_types") or values.get("layers_block_type") or ()
    firsts = [list(types).index(name) + 1 for name in set(types)] if isinstance(types, (list, tuple)) else []
    stages = 0 if values.get("depths") else len(values.get("out_indices") or ())
    return min(max([2, stages, *firsts]), _MAX_LAYERS)


def small_configs(model_type: str) -> Iterator[tuple[str, Any]]:
    """Yield reduced configurations of a family with the names of their plans, from the smallest on."""
    from transformers import CONFIG_MAPPING

    config_class = CONFIG_MAPPING[model_type]
    values = config_class().to_dict()
    for plan in PLANS:
        reduced = Reduction(plan).reduce(values)
        reduced.pop("model_type", None)
        try:
            config = config_class(**reduced, num_labels=3)
        except Exception as error:
            yield plan.name, error
        else:
            yield plan.name, config
