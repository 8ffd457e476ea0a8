"""msprobe's names, of vernier (vernier-compat)."""

import vernier_compat

vernier_compat.check()
