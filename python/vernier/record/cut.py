"""Parts of tensors: the `slice` rules of the configuration, and the rows of one request."""


class Cut:
    def __init__(self, rules):
        self._rules = rules
        self._total, self._rows = None, None

    def set_rows(self, scheduled_tokens, request):
        """Dimension 0 is cut to the rows of ``request`` wherever its length is that of all requests together."""
        begin = 0
        for name, count in scheduled_tokens.items():
            if name == request:
                self._rows = slice(begin, begin + count)
            begin += count
        self._total = begin

    def __call__(self, tensor):
        if self._rows is not None and tensor.dim() > 0 and tensor.shape[0] == self._total:
            tensor = tensor[self._rows]
        for rule in self._rules:
            dim = rule.get("dim", 0)
            if dim >= tensor.dim() or rule.get("size", tensor.shape[dim]) != tensor.shape[dim]:
                continue
            part = slice(rule.get("begin", 0), rule.get("end"))
            tensor = tensor[(slice(None),) * dim + (part,)]
        return tensor
