"""Holds the fake hub against the hubs' own clients, and what is staged against its readers."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.process.fetcher import localhub, models, rig

pytestmark = pytest.mark.process


def client(script: str, home: pathlib.Path, environ: dict[str, str]) -> str:
    """Run a few lines of somebody's client in a process of its own."""
    scratch = {"HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**rig.environment(), **scratch, **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def test_the_real_huggingface_client_downloads_from_the_fake(
    hub: localhub.LocalHub, tmp_path: pathlib.Path
) -> None:
    hub.repos["org/m"] = localhub.Repo(files=models.small(), token="hf_right", gated=True)
    target = tmp_path / "target"
    script = (
        "import huggingface_hub as h;"
        f"h.snapshot_download('org/m', local_dir={str(target)!r});"
        "print(h.HfApi().model_info('org/m', revision='main').sha)"
    )
    said = client(script, tmp_path, hub.environ(HF_TOKEN="hf_right"))
    assert said == localhub.COMMIT
    found = {n: c for n, c in rig.tree(target).items() if not n.startswith(".cache/")}
    assert found == models.small()
    assert all("authorization" not in seen.headers for seen in hub.asked("cdn"))


def test_the_real_modelscope_client_downloads_from_the_fake(
    hub: localhub.LocalHub, tmp_path: pathlib.Path
) -> None:
    hub.repos["org/m"] = localhub.Repo(files=models.small())
    target = tmp_path / "target"
    script = (
        "import modelscope_hub as m;"
        f"m.HubApi().download_repo('org/m', repo_type='model', local_dir={str(target)!r})"
    )
    scratch = {
        "MODELSCOPE_CACHE": str(tmp_path / "cache"),
        "MODELSCOPE_HOME": str(tmp_path / "home"),
        "MODELSCOPE_DOWNLOAD_INTRA_CLOUD": "false",
    }
    client(script, tmp_path, hub.environ(**scratch))
    found = {n: c for n, c in rig.tree(target).items() if not n.startswith(".")}
    assert found == models.small()


def test_what_is_staged_is_found_offline_as_vllm_looks_for_it(
    hub: localhub.LocalHub, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    hub.repos["org/m"] = localhub.Repo(files=models.small(), branches=("main", "v1"))
    assert rig.stage("hf://org/m@v1", cache, environ=hub.environ()).code == 0
    script = (
        "import huggingface_hub as h;"
        "print(h.snapshot_download('org/m', local_files_only=True));"
        "print(h.snapshot_download('org/m', local_files_only=True, revision='v1'));"
        f"print(h.snapshot_download('org/m', local_files_only=True, revision={localhub.COMMIT!r}))"
    )
    said = client(script, tmp_path, {"HF_HOME": str(cache), "HF_HUB_OFFLINE": "1"})
    snapshot = cache / f"hub/models--org--m/snapshots/{localhub.COMMIT}"
    assert said.splitlines() == [str(snapshot)] * 3


def test_transformers_loads_a_staged_model_offline_from_a_read_only_cache_as_another_user(
    hub: localhub.LocalHub, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    made = tmp_path / "made"
    script = (
        "import numpy, safetensors.numpy, tokenizers, transformers as t;"
        "words = {'[UNK]': 0, 'hello': 1, 'world': 2};"
        "word = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token='[UNK]'));"
        "word.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace();"
        f"t.PreTrainedTokenizerFast(tokenizer_object=word).save_pretrained({str(made)!r});"
        f"t.LlamaConfig(hidden_size=8, vocab_size=3, intermediate_size=8, num_attention_heads=2,"
        f" num_hidden_layers=1).save_pretrained({str(made)!r});"
        "weights = {'model.embed_tokens.weight': numpy.ones((3, 8), 'float32')};"
        f"safetensors.numpy.save_file(weights, {str(made / 'model.safetensors')!r})"
    )
    client(script, tmp_path, {})
    hub.repos["org/tiny"] = localhub.Repo(files=rig.tree(made))
    assert rig.stage("hf://org/tiny", cache, environ=hub.environ()).code == 0
    home = tmp_path / "home"
    home.mkdir(mode=0o777)
    os.chmod(home, 0o777)
    for folder in (cache, *cache.parents):
        os.chmod(folder, os.stat(folder).st_mode | 0o555)
        if folder.name.startswith("pytest-of"):
            break
    # Loaded once before: the interpreter's own files need not be readable for that other user.
    script = (
        "import os, huggingface_hub as h, safetensors.numpy, transformers as t\n"
        "def load():\n"
        "    print(t.AutoConfig.from_pretrained('org/tiny').hidden_size)\n"
        "    print(t.AutoTokenizer.from_pretrained('org/tiny')('hello world')['input_ids'])\n"
        "    path = h.snapshot_download('org/tiny', local_files_only=True)\n"
        "    weights = safetensors.numpy.load_file(path + '/model.safetensors')\n"
        "    print(weights['model.embed_tokens.weight'].sum())\n"
        "load(); os.setgid(65534); os.setuid(65534); load()"
    )
    environ = {"HF_HOME": str(cache), "HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(home)}
    said = client(script, home, environ)
    assert said.splitlines()[-3:] == ["8", "[1, 2]", "24.0"]
