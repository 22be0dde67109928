"""``noctaya-echo``: an OpenAI-compatible engine that echoes the prompt, and says so.

It stands in for vLLM where a GPU, a model or the time to load one is missing, and behaves like it
where a gateway could notice: the port that opens late, the way a stream is cut into writes, the
errors, the end at SIGTERM.
"""

import time

# The program's first own moment, in seconds since the epoch: a cold start's split needs it.
STARTED_AT = time.time()
