"""What the command line settled: everything the engine needs, with every default applied."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    host: str
    port: int
    model: str
    served_names: tuple[str, ...]
    load_seconds: float
    time_to_first_token_seconds: float
    tokens_per_second: float
    """0: as fast as it can."""
    max_model_len: int
    """Prompt and answer together, in tokens."""
    max_num_seqs: int
    """Requests that run at once; the others wait their turn."""
    shutdown_timeout_seconds: float
    """How long running requests may finish after SIGTERM; 0 aborts them, as vLLM's default does."""
    crash_on_start: bool
    crash_after_seconds: float | None
    """From the start of the process, so a crash can also fall into the load time."""
    crash_exit_code: int
