"""A stand-in for Metacontroller: test support, never shipped.

Metacontroller is what runs Noctaya's controllers in a real cluster. No registry that CI can
reach serves it, so the cluster tests use this small loop instead and take the real program from
the environment variable ``METACONTROLLER`` where somebody has one. It reads the same
CompositeController and DecoratorController resources from the same API server, sends hooks the
same requests and applies their answers the same way. Where the two differ, this one is wrong.

It does what Noctaya's controllers use: v2 ``sync`` and ``customize`` hooks by URL,
``generateSelector``, the dynamic-apply strategy with OnDelete and InPlace. A controller that asks
for anything else (finalize hooks, rolling updates, server-side apply) is refused by name instead
of being half served. Two things are left out: Kubernetes Events, and ETags.

Layers, each importing only those below it::

    __main__    command line
    manager     which controllers run; retries those that cannot start
    composite, decorator    one sync of one parent
    runner      queue, workers and watches of one controller
    related, hook, apply    customize rules, HTTP to the hooks, writes to the API server
    informer, workqueue, client    list and watch, queueing, HTTP to the API server
    plan, merge, responses, objects    pure: objects in, decisions out
"""
