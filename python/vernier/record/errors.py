"""What goes wrong while recording is set up; each error has a code for programs and says what would be allowed."""


class RecordError(Exception):
    """``code`` is one of the families below; the text names the setting, the value and what is allowed."""

    PARAMETER, FILE, SCOPE, USAGE = 1, 2, 3, 4

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code

    def __reduce__(self):
        return type(self), (self.code, str(self))


def parameter_error(key, value, allowed):
    return RecordError(RecordError.PARAMETER, f"{key} is {value!r}; allowed: {allowed}")


def scope_error(key, value, allowed):
    return RecordError(RecordError.SCOPE, f"{key} is {value!r}; allowed: {allowed}")
