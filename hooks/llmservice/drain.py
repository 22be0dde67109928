"""What holds an ending backend replica until its requests are done.

Where the runtime names the engine's metrics, a shell command that ends at once when nothing listens
on the port, and else once the engine has shown no request for ten checks in a row, a second apart:
an engine's gauges lag behind its requests, so one quiet look proves nothing. Where no metrics are
named, the kubelet's own sleep, which needs nothing in the image.
"""

import math
from decimal import Decimal

from hooks.api.runtime import InferenceRuntimeSpec, Metrics
from hooks.k8s.objects import Object

# What a Pod needs beyond its drain: the engine's own shutdown.
GRACE_BEYOND_DRAIN_SECONDS = 10

# Kubernetes' own default.
_DEFAULT_GRACE_SECONDS = 30

# The text is part of the Pod template: a change of one letter restarts every engine.
_SCRIPT = """\
listens() {
  if command -v grep > /dev/null 2>&1; then
    grep -q ':@HEX@ [0-9A-F]*:0000 0A ' /proc/net/tcp /proc/net/tcp6 2> /dev/null
    return
  fi
  for table in /proc/net/tcp /proc/net/tcp6; do
    [ -r "$table" ] || continue
    while read -r line; do
      case "$line" in *":@HEX@ "*":0000 0A "*) return 0 ;; esac
    done < "$table"
  done
  return 1
}
scrape() {
  if command -v python3 > /dev/null 2>&1; then
    python3 -c "import urllib.request as u; print(u.urlopen('@URL@', timeout=2).read().decode())"
  elif command -v curl > /dev/null 2>&1; then
    curl -s -m 2 '@URL@'
  elif command -v wget > /dev/null 2>&1; then
    wget -q -T 2 -O - '@URL@'
  fi 2> /dev/null
}
quiet() {
  scrape | {
    state=unknown
    while read -r line; do
      case "$line" in
        '@RUNNING@{'* | '@RUNNING@ '* | '@WAITING@{'* | '@WAITING@ '*)
          case "${line##* }" in
            *[1-9]*) state=busy ;;
            *) [ "$state" = busy ] || state=quiet ;;
          esac
          ;;
      esac
    done
    [ "$state" = quiet ]
  }
}
end=$(($(date +%s) + @SECONDS@))
checks=0
while listens && [ "$(date +%s)" -lt "$end" ]; do
  if quiet; then
    checks=$((checks + 1))
    [ "$checks" -ge 10 ] && break
  else
    checks=0
  fi
  sleep 1
done
exit 0
"""


def pre_stop(runtime: InferenceRuntimeSpec, *, drain: Decimal) -> Object:
    """The preStop handler; empty where nothing is drained."""
    seconds = math.ceil(drain)
    if not runtime.lifecycle.pre_stop_drain or seconds == 0:
        return {}
    metrics = runtime.metrics
    if metrics is None or metrics.running is None:
        return {"sleep": {"seconds": seconds}}
    script = _SCRIPT
    for mark, value in {
        "@HEX@": f"{runtime.container.port.container_port:04X}",
        "@URL@": f"http://127.0.0.1:{metrics_port(runtime, metrics)}{metrics.path}",
        "@RUNNING@": metrics.running,
        "@WAITING@": metrics.queue_depth,
        "@SECONDS@": str(seconds),
    }.items():
        script = script.replace(mark, value)
    return {"exec": {"command": ["/bin/sh", "-c", script]}}


def metrics_port(runtime: InferenceRuntimeSpec, metrics: Metrics) -> int:
    """The number of the port that serves the metrics; a name can only be the container's own."""
    return metrics.port if isinstance(metrics.port, int) else runtime.container.port.container_port


def grace_seconds(runtime: InferenceRuntimeSpec, *, drain: Decimal) -> int:
    """The Pod's termination grace period."""
    grace = runtime.lifecycle.termination_grace_period_seconds or _DEFAULT_GRACE_SECONDS
    if runtime.lifecycle.pre_stop_drain:
        grace = max(grace, math.ceil(drain) + GRACE_BEYOND_DRAIN_SECONDS)
    return grace
