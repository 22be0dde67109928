"""The ``noctaya`` command: LLMServices on one machine, without a cluster.

``noctaya up`` renders the children with the same hooks as on a cluster and plays, in small, the
parts that a cluster would have: Metacontroller (``world``), the kubelet (``kubelet``,
``processes``), the Deployment and EndpointSlice controllers (``pods``, ``slices``) and KEDA with
the HPA (``keda``, ``scaling``). Whatever decides is pure and takes the time as an argument;
processes, sockets and files are at the edge.

``render``, ``replay`` and ``test`` start nothing: they ask the same hooks about manifests and about
requests that hooks recorded.
"""
