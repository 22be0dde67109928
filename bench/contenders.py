"""The proxies that ``bench.gateway`` runs beside ours, and how each is started.

nginx is Debian's (``apt-get install nginx-light``). LiteLLM's proxy has an environment of its own,
made on first use from ``requirements/bench-litellm.txt``; it takes 750 MiB and some minutes. What
cannot be had is left out, in words.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.processes import free_port

ROOT = Path(__file__).parents[1]
YARDSTICK = "Go ReverseProxy"
OURS = "noctaya-gateway"
KEY = "sk-bench"  # What the load generator sends.

_LITELLM_VERSION = "import importlib.metadata as m; print(m.version('litellm'))"


@dataclass(frozen=True, kw_only=True)
class Contender:
    """``command`` is given the port to listen on. ``every``: takes part in one round of so many."""

    name: str
    version: str
    command: Callable[[int], list[str]]
    env: Mapping[str, str] = field(default_factory=dict)
    every: int = 1


def contenders(folder: Path, backend: int, yardstick: str) -> Iterator[Contender]:
    """All that can run here, in front of the backend on that port. Their files go to ``folder``."""
    target = f"http://127.0.0.1:{backend}"
    yield Contender(
        name=YARDSTICK,
        version=_said("go", "version").split()[2].removeprefix("go"),
        command=lambda port: [yardstick, "proxy", "-listen", f"127.0.0.1:{port}", "-url", target],
        env={"GOMAXPROCS": "1"},
    )
    yield Contender(
        name=OURS,
        version=f"Python {sys.version.split()[0]}",
        command=lambda port: _gateway(folder, port, backend),
    )
    yield Contender(
        name="aiohttp + ClientSession",
        version=_said(sys.executable, "-c", "import aiohttp; print(aiohttp.__version__)"),
        command=lambda port: [sys.executable, "-m", "bench.aioproxy", str(port), target],
    )
    if nginx := shutil.which("nginx") or shutil.which("/usr/sbin/nginx"):
        yield Contender(
            name="nginx",
            version=_said(nginx, "-v").rpartition("/")[2],
            command=lambda port: _nginx(nginx, folder, port, backend),
        )
    else:
        print("nginx is left out: apt-get install nginx-light")
    if litellm := _litellm_environment():
        yield Contender(
            name="LiteLLM proxy",
            version=_said(str(litellm / "bin" / "python"), "-c", _LITELLM_VERSION),
            command=lambda port: _litellm(litellm, folder, port, backend),
            # Without these it asks the internet for a list of prices.
            env={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
            # One slice of it takes as long as all others together.
            every=3,
        )


def _gateway(folder: Path, port: int, backend: int) -> list[str]:
    """With everything on that a deployment has on: a key, logs, metrics, the scaler."""
    endpoint = {"addresses": ["127.0.0.1"], "conditions": {"ready": True}}
    slices = {"items": [{"ports": [{"name": "http", "port": backend}], "endpoints": [endpoint]}]}
    replicas, key = folder / "replicas.json", folder / "key"
    replicas.write_text(json.dumps(slices))
    key.write_text(KEY)
    return [
        *(sys.executable, "-m", "gateway", "--namespace", "bench", "--service", "bench"),
        *("--listen", f"127.0.0.1:{port}", "--scaler-listen", f"127.0.0.1:{free_port()}"),
        *("--replicas-from", f"file:{replicas}", "--readiness", '{"path":"/health"}'),
        *("--max-queue", "4096", "--api-key-file", str(key)),
    ]


def _nginx(nginx: str, folder: Path, port: int, backend: int) -> list[str]:
    config = folder / "nginx.conf"
    config.write_text(
        f"""
        daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log /dev/null;
        events {{ worker_connections 8192; }}
        http {{
            access_log off;
            client_body_temp_path {folder}; proxy_temp_path {folder};
            upstream backend {{ server 127.0.0.1:{backend}; keepalive 512; }}
            server {{
                listen 127.0.0.1:{port};
                location / {{
                    proxy_pass http://backend; proxy_http_version 1.1; proxy_buffering off;
                    proxy_set_header Connection "";
                }}
            }}
        }}"""
    )
    return [nginx, "-p", str(folder), "-c", str(config)]


def _litellm(environment: Path, folder: Path, port: int, backend: int) -> list[str]:
    config = folder / "litellm.yaml"
    engine = {"model": "openai/m", "api_base": f"http://127.0.0.1:{backend}/v1", "api_key": KEY}
    models = [{"model_name": "m", "litellm_params": engine}]
    # JSON is YAML.
    config.write_text(json.dumps({"model_list": models, "general_settings": {"master_key": KEY}}))
    return [
        *(str(environment / "bin" / "litellm"), "--config", str(config), "--num_workers", "1"),
        *("--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"),
    ]


def _litellm_environment() -> Path | None:
    lock = ROOT / "requirements" / "bench-litellm.txt"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "noctaya"
    version = hashlib.sha256(lock.read_bytes()).hexdigest()[:12]
    environment = cache / f"bench-litellm-{version}"
    if (environment / "complete").exists():
        return environment
    print("installing LiteLLM's proxy, once")
    pip = str(environment / "bin" / "pip")
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        subprocess.run([pip, "install", "-q", "--require-hashes", "-r", str(lock)], check=True)
    except subprocess.CalledProcessError as e:
        print(f"LiteLLM's proxy is left out: {e}")
        return None
    (environment / "complete").touch()
    return environment


def _said(*command: str) -> str:
    """What it printed, wherever to."""
    done = subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.stdout.strip()
