"""The Decorator that attaches a KEDA ScaledObject to a service, and brings KEDA's words back.

The hand-over of the backend's replicas takes three answers, each of which waits for what it sees:

1. The gateway is available and the backend has its `scaling.min` replicas: this Decorator sets the
   parent's annotation.
2. The Composite sees the annotation, marks the backend Deployment as KEDA's and echoes its number
   from then on.
3. This Decorator sees the mark: only now does it attach the ScaledObject.

KEDA therefore never scales a Deployment whose number the Composite would still set, however old the
copies are that either of them reads. Once attached, the ScaledObject stays until its service goes:
deleting it would take the replicas of a serving model.
"""
