"""A plan's children, each a literal shaped like its YAML.

Nothing here looks at the world: what is applied of these, and with which number of replicas, is
decided in `hooks.llmservice.arrange`.
"""

from hooks.k8s.objects import Object
from hooks.llmservice.plan import CacheClaim, Plan
from hooks.llmservice.render import access, backend, gateway, scaler, storage


def children(plan: Plan) -> list[Object]:
    """Every child, as a cluster would first get it."""
    rendered = [
        backend.deployment(plan),
        backend.service(plan),
        gateway.deployment(plan),
        gateway.endpoint_service(plan),
        scaler.service(plan),
        access.service_account(plan),
        access.role_binding(plan),
    ]
    if plan.gateway.formation.aggregate:
        rendered.append(scaler.deployment(plan))
    if plan.gateway.several:
        rendered.append(gateway.disruption_budget(plan))
    if isinstance(plan.cache, CacheClaim):
        rendered.append(storage.claim(plan, plan.cache))
    return rendered
