#include "profiles/torchair/load.h"

#include <fmt/format.h>

#include <memory>

#include "core/mapped_file.h"
#include "vernier/measure.h"
#include "vernier/read.h"

namespace vernier::torchair {
namespace {

// torch had no uint16 and uint32 for long, and takes larger integers for them.
std::string TorchName(Dtype dtype) {
  if (dtype == Dtype::kU16) dtype = Dtype::kI32;
  if (dtype == Dtype::kU32) dtype = Dtype::kI64;
  return "torch." + std::string(Name(dtype));
}

std::string ShownType(const GeTensorView& loaded) {
  // Of nothing the reference makes float64, NumPy's type of an empty list.
  if (loaded.view.num_elements == 0) return TorchName(Dtype::kF64);
  if (loaded.type->decoding == GeDecoding::kNibbles) return "torch.int4";
  return TorchName(loaded.type->shown());
}

TensorView Owned(Dtype dtype, Shape shape, std::vector<float> values) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(values));
  TensorView view = BorrowTensor(dtype, std::move(shape), owner->data());
  view.owner = owner;
  return view;
}

}  // namespace

Result<LoadedTensor> LoadTensor(const TensorRef& ref) {
  LoadedTensor loaded;
  if (ref.fx_path != nullptr) {
    VN_ASSIGN_OR_RETURN(loaded.view, LoadTensorFile(*ref.fx_path));
    loaded.dtype = TorchName(loaded.view.dtype);
    return loaded;
  }
  if (ref.op == nullptr) {
    loaded.view = Owned(Dtype::kF32, {0}, {});
    loaded.dtype = TorchName(Dtype::kF32);
    return loaded;
  }
  if (ref.op->damage) return *ref.op->damage;
  if (!ref.index) return Error{ErrorCode::kNoPair, ref.op->path, ""};
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(ref.op->path));
  const std::string where = ShownPath(ref);
  if (ref.op->shrunk) {
    VN_ASSIGN_OR_RETURN(loaded.view, Inside(where, LoadShrunk(file, ref.output, *ref.index)));
    loaded.dtype = TorchName(loaded.view.dtype);
    return loaded;
  }
  const std::vector<GeTensor>& tensors = ref.output ? ref.op->dump.outputs : ref.op->dump.inputs;
  VN_ASSIGN_OR_RETURN(GeTensorView view,
                      Inside(where, LoadGeTensor(file, tensors[*ref.index], GeForm::kPlainOrder)));
  loaded.dtype = ShownType(view);
  loaded.view = std::move(view.view);
  loaded.note = std::move(view.note);
  return loaded;
}

Result<LoadedTensor> Shrunk(const LoadedTensor& tensor) {
  StatsOptions options;
  options.real_part_only = options.as_float32 = true;
  options.num_threads = 1;  // others are reduced at the same time
  VN_ASSIGN_OR_RETURN(const TensorStats stats, MeasureTensor(tensor.view, options));
  LoadedTensor shrunk = tensor;
  shrunk.view =
      tensor.view.num_elements == 0
          ? Owned(Dtype::kF32, {0}, {})
          : Owned(Dtype::kF32, {2}, {static_cast<float>(stats.Min()), static_cast<float>(stats.Max())});
  return shrunk;
}

}  // namespace vernier::torchair
