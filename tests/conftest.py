"""How hard property tests search: quickly by default, longer where somebody asks for it.

The default is the same search every time, so that a change breaks the build only if it broke the
code.  `HYPOTHESIS_PROFILE=search` looks elsewhere each time, and ten times longer.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("quick", max_examples=50, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "search", max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
