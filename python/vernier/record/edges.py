"""The gradients of a module's inputs, seen where they flow from: nothing is added to autograd's graph.

A node between a module and its input would tell what flows through the module from what flows past it, but it would
also add up the module's part before the rest: floating-point sums would differ from those of a plain run. So, when a
module returns, the graph behind its outputs is followed to the nodes that use its inputs. These are watched while
backward goes on, and what they hand to an input is added up here once more.

A module is done when autograd has come past everything that was made inside it. Autograd runs what was made last first,
by the numbers that nodes have; so a module is done when a node with a smaller number runs than those of its own, which
is noticed at the next node that somebody watches, or at the end of backward.
"""

import functools
import itertools
from functools import partial

import torch

_graph_task = getattr(torch._C, "_current_graph_task_id", None)
_next_number = getattr(torch.autograd, "_get_sequence_nr", None)
CAN_FOLLOW = _graph_task is not None and _next_number is not None  # from torch 2.1 on
_OF_LEAVES = 2**64 - 1  # the number of nodes that add up the gradients of leaves
moments = itertools.count()


class Region:
    """What was made inside one call."""

    __slots__ = ("exits", "outer")

    def __init__(self, exits):
        self.exits = exits  # edges that lead out of it: ((node, which of its edges), (where to, which output of that))
        self.outer = None

    def outermost(self):
        region = self
        while region.outer is not None:
            region = region.outer
        return region


class Following:
    """Of one call of a module, from its beginning on."""

    __slots__ = ("targets", "kinds", "number", "order", "watched", "num_left", "same", "task", "sums", "waits")

    def __init__(self, tensors, leaves):
        """Adds to ``leaves`` the nodes that add up the gradients of those that are leaves."""
        self.targets = {}  # (node, which of its outputs) -> position of the input
        self.kinds = [None] * len(tensors)  # of several: (shape, dtype, device), unless it is an input before
        for position, tensor in enumerate(tensors):
            key = _source(tensor)
            if tensor.grad_fn is None:
                leaves.add(key[0])
            if self.targets.setdefault(key, position) == position and len(tensors) > 1:
                self.kinds[position] = (tensor.shape, tensor.dtype, tensor.device)
            base = tensor._base
            if base is not None and base.grad_fn is not None and base.shape == tensor.shape:
                # What changes a view in place does so by its base.
                self.targets.setdefault((base.grad_fn, base.output_nr), position)
        self.number = _next_number()  # what is made inside has this one or a greater
        self.order = next(moments)
        self.same = self.task = self.sums = None  # same: position of the input that is the output
        self.watched = self.num_left = 0  # nodes that use an input; that have not run yet in this backward
        self.waits = False

    def gradients(self):
        """Zeros for one of several that the module does not use; None where a tensor is passed again."""
        return [
            torch.zeros(kind[0], dtype=kind[1], device=kind[2]) if total is None and kind is not None else total
            for total, kind in zip(self.sums, self.kinds)
        ]


class Edges:
    """``arrived(call, gradients)`` is called when a module is done, with the gradients of its inputs."""

    def __init__(self, capture, arrived):
        self._capture, self._quietly, self._arrived = capture, capture.quietly, arrived

    def enter(self, call, tensors):
        call.following = Following(tensors, self._capture.local.leaves)

    def leave(self, call, module, outputs):
        """Watches what inside the call uses its inputs. ``outputs``: tensors that gradients flow to."""
        following = call.following
        if len(outputs) == 1:
            following.same = following.targets.get(_source(outputs[0]))
        nodes = [tensor.grad_fn for tensor in outputs]
        for value in vars(module).values():
            if type(value) is torch.Tensor:  # kept for a loss that is computed later
                nodes.append(value.grad_fn)
        found = self._follow(following, nodes)
        following.targets = None  # what it would keep alive: autograd's graph
        following.watched = len(found)
        for node, edges in found.items():
            node.register_hook(partial(self._quietly, self._handed_on, call, node._sequence_nr(), edges))

    def _follow(self, following, nodes):
        """{node: [(which of its edges, position of the input)]}, in the order of the edges."""
        local = self._capture.local
        regions, leaves, targets, number = local.regions, local.leaves, following.targets, following.number
        exits, seen, inner, found = [], set(), set(), {}
        nodes = [node for node in nodes if node is not None and node._sequence_nr() >= number]
        while nodes:
            node = nodes.pop()
            if node in seen:
                continue
            region = regions.get(node)
            if region is None:
                seen.add(node)
                edges = enumerate(node.next_functions)
            else:
                region = region.outermost()
                if region in inner:
                    continue
                inner.add(region)
                edges = region.exits
            for user, edge in edges:
                if region is None:
                    user = (node, user)
                position = targets.get(edge)
                if position is not None:
                    if position != following.same:  # its gradient comes to the output
                        found.setdefault(user[0], []).append((user[1], position))
                    exits.append((user, edge))
                    continue
                target = edge[0]
                if target is None:
                    continue
                made = target._sequence_nr()
                if made == _OF_LEAVES:
                    if target in leaves:
                        exits.append((user, edge))
                elif made >= number:
                    nodes.append(target)
                else:
                    exits.append((user, edge))
        if local.modules:
            own = Region(exits)
            for node in seen:
                regions[node] = own
            for region in inner:
                region.outer = own
        for edges in found.values():
            edges.sort()
        return found

    # -- backward

    def _handed_on(self, call, number, edges, gradients, _):
        self.pass_to(number)
        if self._capture.is_over(call):
            return
        following = call.following
        self._begin(following)
        following.num_left -= 1
        for i, position in edges:
            if gradients[i] is not None:
                self._add(call, position, gradients[i], is_all=following.watched == 1 and len(edges) == 1)
        if following.same is None:  # else its output comes later
            self._wait(call)

    @staticmethod
    def _begin(following):
        task = _graph_task()
        if following.task != task:
            following.task, following.num_left, following.waits = task, following.watched, False
            following.sums = [None] * len(following.kinds)

    def _wait(self, call):
        following, waiting = call.following, self._capture.local.waiting
        if following.waits:
            return
        if following.task not in waiting:
            waiting[following.task] = []
            callback = partial(self._quietly, self._end, waiting, following.task)
            torch.autograd.Variable._execution_engine.queue_callback(callback)
        waiting[following.task].append(call)
        following.waits = True

    @staticmethod
    def _add(call, position, gradient, is_all):
        sums = call.following.sums
        if sums[position] is None:
            sums[position] = gradient if is_all else gradient.detach().clone()
        else:
            sums[position].add_(gradient.detach())

    def pass_through(self, call, gradient):
        """The gradient of an output that is an input, given back as it came."""
        following = call.following
        if following is None or following.same is None or self._capture.is_over(call):
            return
        self._begin(following)
        self._add(call, following.same, gradient, is_all=True)
        self._wait(call)

    def pass_to(self, number):
        """Autograd runs a node with this number: modules that lie behind it are done."""
        if self._capture.local.waiting:
            self._done_if(lambda call: call.following.number > number)

    def pass_to_call(self, call):
        """Its outputs get their gradients: modules that were called after it had ended are done."""
        if self._capture.local.waiting:
            self._done_if(lambda other: other.following.order > call.end)

    def pass_to_parameter(self, module_names):
        """A gradient of a parameter of these modules is added up: others that miss nothing are done."""
        if self._capture.local.waiting:
            self._done_if(
                lambda call: (
                    not call.following.num_left and not any(_is_inside(name, call.module_name) for name in module_names)
                )
            )

    def _done_if(self, condition):
        calls = self._capture.local.waiting.get(_graph_task())
        done = calls and list(filter(condition, calls))
        if done:
            calls[:] = [call for call in calls if call not in done]
            self._all_done(done)

    def _end(self, waiting, task):
        self._all_done(waiting.pop(task, ()))

    def _all_done(self, calls):
        for call in sorted(calls, key=_last_first) if len(calls) > 1 else calls:
            self._done(call)

    def _done(self, call):
        following = call.following
        gradients, following.task, following.sums, following.waits = following.gradients(), None, None, False
        self._arrived(call, gradients)


def _source(tensor):
    """(node, which of its outputs) that the gradient of the tensor goes to."""
    node = tensor.grad_fn
    return (node, tensor.output_nr) if node is not None else tensor.view_as(tensor).grad_fn.next_functions[0]


def _last_first(call):
    return -call.following.number, -call.following.order


@functools.lru_cache(maxsize=2**16)
def _is_inside(module_name, outer_name):
    """Names are Module.{path}.{class}."""
    path, outer = (name.rpartition(".")[0] for name in (module_name, outer_name))
    return path == outer or path.startswith(outer + ".")
