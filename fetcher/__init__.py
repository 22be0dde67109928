"""Stages a model's files on a cache volume: whole and proven, or not at all.

    noctaya-fetch stage hf://Qwen/Qwen3-0.6B --cache /cache

There is one road for every source (`stage.py`): plan what is wanted, refuse bad names, look for
space, write into a partial folder on the cache's own filesystem while hashing, fsync, rename,
and write the marker last. A source (`sources/`) only lists files with what proves each of them,
and opens one file at an offset.

The rule: urllib3 for HTTP, and no hub's own client. Hubs and registries need little more than
ranged GETs, and the clients that exist each accept wrong bytes, an empty result or a path outside
the folder in some case; one road gives one place for timeouts, retries, proxies and secrets. It
costs the hub's deduplicating transfer (xet). A hub that stops serving plain ranges would change
our mind.
"""

VERSION = "0.1.0"
