// Calls of modules from their inputs to the gradients of their inputs and parameters. What is usual is done
// here; a module that works in place, several tensors that need gradients, sparse ones and the like are left
// to backward.py.
//
// A call is an object of Python (ModuleCall of capture.py), and what hangs on tensors is a function whose
// `__self__` is a tuple: so the interpreter's garbage collector sees every ring that they make with the
// graph.
#pragma once

#include <initializer_list>
#include <memory>

#include "front/objects.h"

namespace vernier::python {

struct Front;

// Attributes, and fields of records.
// clang-format off
#define VN_NAMES_OF_MODULE_CALLS(F)                                                                   \
  F(name, "name") F(module_name, "module_name") F(number, "number") F(epoch, "epoch") F(kept, "kept") \
  F(began, "began") F(parent, "parent") F(stack, "stack") F(inputs, "inputs") F(sources, "sources")   \
  F(passed, "passed") F(node, "node") F(num_outputs, "num_outputs") F(arrived, "arrived")             \
  F(rerouted, "rerouted") F(over, "over") F(recorded, "recorded") F(backward_name, "backward_name")   \
  F(changes_inputs, "changes_inputs") F(modules, "modules") F(backward, "backward")                   \
  F(boundaries, "boundaries") F(depth, "depth") F(counters, "counters") F(micro_step, "micro_step")   \
  F(failed, "failed") F(running_module, "running_module") F(put, "put")               \
  F(note_parent, "note_parent") F(note_stack, "note_stack") F(begin_module, "begin_module")           \
  F(end_module, "end_module") F(begin_backward, "begin_backward") F(keeps_later, "keeps_later")       \
  F(keeps_gradients, "keeps_gradients") F(watch_module_inputs, "watch_module_inputs")                 \
  F(watch_module_output, "watch_module_output") F(watch_parameter, "watch_parameter")                 \
  F(requires_grad, "requires_grad") F(dtype, "dtype") F(layout, "layout") F(grad_fn, "grad_fn")       \
  F(grad, "grad") F(main_grad, "main_grad") F(is_leaf, "is_leaf") F(version, "_version")              \
  F(tensor_hooks, "_backward_hooks") F(parameter_hooks, "_post_accumulate_grad_hooks")                \
  F(register_hook_dict, "_register_hook_dict") F(dict, "__dict__") F(self, "__self__")                \
  F(enter, "__enter__") F(exit, "__exit__") F(inplace, "inplace") F(module_parameters, "_parameters") \
  F(input_args, "input_args") F(input_kwargs, "input_kwargs") F(input, "input") F(output, "output")   \
  F(parameters, "parameters")
// clang-format on

// Calls that give a bool, and an empty Ref, leave a Python exception. REQUIRES: the GIL is held.
class ModuleCalls {
 public:
  // `capture` has the attributes that are read in module_calls.cc, and so has `settings`. Null: a Python
  // exception says why.
  static std::unique_ptr<ModuleCalls> Create(Front& front, PyObject* capture, PyObject* settings);

  // (call, arguments to hand on)
  Ref Enter(PyObject* module, PyObject* module_name, PyObject* args, PyObject* kwargs);
  // The result to hand on.
  Ref Leave(PyObject* call, PyObject* module, PyObject* result);
  // The module has raised; `wants_record`: it has done all the same what was wanted of it.
  bool Abandon(PyObject* call, PyObject* module, bool wants_record);

  // For backward.py.
  bool WatchOutput(PyObject* tensor, PyObject* call, PyObject* position);
  bool OutputsArrived(PyObject* call);
  bool InputsDone(PyObject* call, PyObject* gradients);

 private:
  // Nothing that is done to tensors meanwhile is recorded.
  class Quiet {
   public:
    explicit Quiet(const ModuleCalls& calls);
    ~Quiet();
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;

    explicit operator bool() const { return static_cast<bool>(guard_); }  // false: a Python exception

   private:
    const ModuleCalls& calls_;
    Ref depth_, guard_;
  };
  struct Names {
#define VN_MEMBER(member, text) Ref member;
    VN_NAMES_OF_MODULE_CALLS(VN_MEMBER)
#undef VN_MEMBER
  };
  enum class Hook { kOutput, kInput, kParameter };

  explicit ModuleCalls(Front& front) : front_(front) {}
  bool Read(PyObject* capture, PyObject* settings);

  static PyObject* OutputHook(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept;
  static PyObject* InputHook(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept;
  static PyObject* ParameterHook(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept;
  template <bool (ModuleCalls::*Fire)(PyObject* self, PyObject* last)>
  static PyObject* RunHook(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept;
  bool GradientArrived(PyObject* self, PyObject* gradient);
  bool InputGradientArrived(PyObject* self, PyObject* gradient);
  bool ParameterGradientArrived(PyObject* self, PyObject* last);

  bool Before(PyObject* call, PyObject* name, PyObject* args, PyObject* kwargs);
  bool After(PyObject* call, PyObject* module, PyObject* result);
  Ref OwnParameters(PyObject* module) const;
  bool TakeOff(PyObject* call);
  bool LetGo(PyObject* call);
  bool WatchInputs(PyObject* call, PyObject* module, PyObject* args, Ref& handed_on);
  bool WatchOutputs(PyObject* call, PyObject* result, Ref& handed_on);
  bool WatchParameters(PyObject* call, PyObject* module);
  bool WatchParameter(PyObject* module_name, PyObject* name, PyObject* parameter);
  bool Finish(PyObject* call, PyObject* gradients);
  Ref ArrivedGradients(PyObject* call) const;

  // REQUIRES: an exception is set. True when it is one of ours and was reported, and the model goes on.
  bool Report();
  bool Record(PyObject* name, PyObject* stack, int flags, std::initializer_list<PyObject*> keys_and_values);
  bool NoteStack(PyObject* name, PyObject* stack);
  bool NoteParent(PyObject* name, PyObject* parent);
  Ref NewHooks(PyObject* tensor, PyObject* node) const;
  bool AddHook(PyObject* hooks, PyObject* key, PyObject* hook);
  bool MoveInputHookToEnd(PyObject* hooks) const;
  Ref NewHook(Hook kind, std::initializer_list<PyObject*> rest) const;
  bool IsPlainTensor(PyObject* value) const;
  bool NeedsGradient(PyObject* tensor, bool& needs) const;  // of a plain one
  bool ChangesInputs(PyObject* module, bool& changes) const;
  bool IsOver(PyObject* call, bool& is_over) const;
  Ref BackwardName(PyObject* call);

  Ref Get(PyObject* object, const Ref& name) const;
  bool Set(PyObject* object, const Ref& name, PyObject* value) const;
  bool GetTruth(PyObject* object, const Ref& name, bool& into) const;
  bool GradientsAreOn(bool& on) const;

  Front& front_;
  Names names_;
  // Of the capture.
  Ref capture_, local_, filter_, backward_;
  bool passes_all_ = false, with_stacks_ = false, with_construct_ = false, forward_input_ = false,
       forward_output_ = false, takes_backward_ = false, backward_input_ = false, backward_output_ = false,
       parameter_gradients_ = false;
  // Of the settings.
  Ref call_class_, no_torch_function_, is_grad_enabled_, get_item_, ellipsis_, is_view_, source_, as_tuple_,
      ordered_dict_, tensor_types_, parameter_type_, dtypes_, strided_, own_put_, key_, input_key_, hooked_,
      watched_parameters_, firings_;
  bool has_post_accumulate_ = false;
  Ref one_, empty_tuple_;
};

}  // namespace vernier::python
