"""Small models to stage: bytes that compress badly, made from a seed."""

import json
import random


def noise(size: int, *, seed: int = 1) -> bytes:
    """Bytes that look like weights."""
    return random.Random(seed).randbytes(size)


def small() -> dict[str, bytes]:
    """A model of a few kilobytes with what a model has: json, two shards, a folder."""
    return {
        "config.json": json.dumps({"model_type": "llama"}).encode(),
        "model-00001-of-00002.safetensors": noise(200_000, seed=1),
        "model-00002-of-00002.safetensors": noise(150_000, seed=2),
        "tokenizer/vocab.txt": b"one\ntwo\n",
        "empty.txt": b"",
    }
