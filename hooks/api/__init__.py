"""The two custom resources as frozen models, and the CRDs that are generated from them.

A model is the one place where a field's default, bounds and description stand. `crds/` is written
from here (``python -m hooks.api.crds``); what an API server may have stored under an older CRD is
checked again by the same models when a hook is called.
"""

GROUP = "serving.noctaya.io"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
