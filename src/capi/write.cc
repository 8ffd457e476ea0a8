// Writers.
#include "capi/c_api_internal.h"
#include "format/npy.h"
#include "format/pt_write.h"
#include "format/safetensors.h"

namespace vernier {
namespace {

using Writer = Result<Done> (*)(const std::filesystem::path& path, const TensorView& tensor);

Result<Done> WritePtFile(const std::filesystem::path& path, const TensorView& tensor) {
  return WritePt(path, tensor);
}

VnStatus WriteOne(Writer writer, const char* path, const VnTensor* tensor) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"path", path}}));
    VN_ASSIGN_OR_RETURN(const TensorView view, ViewOf(tensor, "tensor"));
    return writer(path, view);
  });
}

}  // namespace
}  // namespace vernier

using namespace vernier;  // NOLINT: the functions below are C

VnStatus VnWriteNpy(const char* path, const VnTensor* tensor) { return WriteOne(WriteNpy, path, tensor); }
VnStatus VnWritePt(const char* path, const VnTensor* tensor) { return WriteOne(WritePtFile, path, tensor); }

VnStatus VnWriteSafetensors(const char* path, const char* const* names, const VnTensor* tensors,
                            size_t num_tensors) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"path", path}}));
    if (num_tensors > 0) VN_RETURN_IF_ERROR(CheckNotNull({{"names", names}, {"tensors", tensors}}));
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < num_tensors; ++i) {
      VN_RETURN_IF_ERROR(CheckNotNull({{"a name", names[i]}}));
      VN_ASSIGN_OR_RETURN(TensorView view, ViewOf(&tensors[i], names[i]));
      named.push_back({names[i], std::move(view)});
    }
    return WriteSafetensors(path, named);
  });
}
