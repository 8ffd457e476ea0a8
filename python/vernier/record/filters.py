"""Which calls are recorded: list, scope and risk level."""

from . import names


class Filter:
    """``keeps(name, ...)`` is asked for every call in execution order; modules also tell when they begin and end."""

    def __init__(self, config):
        self._list = tuple(config.list)
        self._scope = tuple(config.scope)
        self._risk = config.risk_level if config.level in ("L1", "mix") and not (self._list or self._scope) else "ALL"
        self._mix = config.level == "mix"
        self._inside = []  # listed modules that are running
        self._with_backward = set()  # modules that have a backward
        self._open = not self._scope
        self._over = False
        self.passes_modules = not self._list and not self._scope  # the risk is one of APIs
        self.passes_all = self._risk == "ALL" and self.passes_modules

    def begin_step(self):
        self._inside = []
        self._with_backward.clear()
        self._open = not self._scope
        self._over = False

    def always(self, family, api):
        """True or False when the API alone decides, None when its name and place do."""
        if self._list or self._scope:
            return None
        return names.risk_keeps(self._risk, family, api)

    def keeps_api(self, name, family, api):
        if self.passes_all:
            return True
        if not names.risk_keeps(self._risk, family, api):
            return False
        self._enter_scope(name)
        kept = self._open and self._listed(name)
        self._leave_scope(name)
        return kept

    def begin_module(self, name):
        if self.passes_all:
            return True
        self._enter_scope(name)
        if self._mix and self._list and any(part in name for part in self._list):
            self._inside.append(name)
        return self._open and self._listed(name)

    def end_module(self, name):
        if self.passes_all:
            return
        if name in self._inside:
            self._inside.remove(name)
        self._leave_scope(name)

    def keeps_later(self, name):
        """Whether a record that is made or added to after the call began is kept."""
        return self.passes_all or (self._open and self._listed(name))

    def begin_backward(self, module_name, name):
        if self.begin_module(name):
            self._with_backward.add(module_name)

    def keeps_gradients(self, module_name, name):
        """Whether gradients of the module's parameters are recorded: as the module itself is."""
        return self._open and self._listed(name) or module_name in self._with_backward

    def _listed(self, name):
        return not self._list or bool(self._inside) or any(part in name for part in self._list)

    def _enter_scope(self, name):
        if self._scope and not self._over and name == self._scope[0]:
            self._open = True

    def _leave_scope(self, name):
        if self._scope and self._open and name == self._scope[1]:
            self._open, self._over = False, True
