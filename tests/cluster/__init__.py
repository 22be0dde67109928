"""A real one-node Kubernetes cluster on one machine, for tests and for trying things by hand.

    python -m tests.cluster up
    python -m tests.cluster kubectl get pods -A
    python -m tests.cluster down

Choices, and what they buy:

- Every program is a real one, pinned by a ``go.mod`` under ``tools/`` and built from the Go
  module proxy; what Go cannot give comes from Debian packages (``install-packages``).
- One *instance* of the rig is a network namespace (its rules, bridges and routes never touch the
  machine) and, in it, a PID and a mount namespace kept by one process. When that process ends,
  however it ends, the kernel ends every program and container with it and their mounts vanish;
  ``keeper`` then removes the three things that have names: the network namespace, the cgroups and
  the state folder. Nothing is ever found or ended by a program's name.
- Whoever starts a rig for the length of a test run holds a pipe to the keeper. Its closing, by
  ``kill -9`` too, takes the rig down. ``up`` by hand keeps no such leash.
- Inside the namespaces the state folder is always ``/run/noctaya``, so configuration is the same
  for every checkout and Unix sockets never outgrow their 108 bytes.

What would change our mind: a machine without PID namespaces for root.
"""
