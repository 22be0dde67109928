"""NVIDIA: whole GPUs, which the runtime's device plugin hands out."""

from hooks.api.runtime import Accelerator
from hooks.k8s import quantity


def devices(accelerator: Accelerator, count: int) -> dict[str, str]:
    """The plugin's resource, once for each GPU; a part of one has another name there."""
    return {accelerator.resource_name: quantity.canonical(str(count))}
