// Writers.
#include "capi/c_api_internal.h"
#include "core/atomic_file.h"
#include "format/npy.h"
#include "format/pt_write.h"
#include "format/safetensors.h"

namespace vernier {
namespace {

using Writer = Result<Done> (*)(const std::filesystem::path& path, const TensorView& tensor);

Result<Done> WritePtFile(const std::filesystem::path& path, const TensorView& tensor) {
  return WritePt(path, tensor);
}

Result<Done> WritePtUnsynced(const std::filesystem::path& path, const TensorView& tensor) {
  return WritePt(path, tensor, {false, std::nullopt});
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

VnStatus VnWritePtUnsynced(const char* path, const VnTensor* tensor) {
  return WriteOne(WritePtUnsynced, path, tensor);
}

VnStatus VnWriteText(const char* path, const char* text, size_t text_bytes) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"path", path}, {"text", text}}));
    VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
    VN_RETURN_IF_ERROR(file.Write(std::string_view(text, text_bytes)));
    return file.Commit();
  });
}

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
