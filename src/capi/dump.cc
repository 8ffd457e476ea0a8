// Reading dumps.
#include "capi/c_api_internal.h"
#include "vernier/read.h"

struct VnDump {
  vernier::Dump dump;
  std::vector<std::string> damage;  // messages; empty where there is none
};

struct VnLoaded {
  vernier::TensorView view;
};

namespace vernier {
namespace {

Result<Done> CheckIndex(const VnDump* dump, size_t index) {
  VN_RETURN_IF_ERROR(CheckNotNull({{"dump", dump}}));
  if (index < dump->dump.tensors().size()) return Done{};
  return BadArgument("index", std::to_string(index) + " of " + std::to_string(dump->dump.tensors().size()));
}

std::vector<std::string> DamageMessages(const Dump& dump) {
  std::vector<std::string> messages;
  for (const TensorInfo& info : dump.tensors()) messages.push_back(info.damage ? info.damage->Message() : "");
  return messages;
}

}  // namespace
}  // namespace vernier

using namespace vernier;  // NOLINT: the functions below are C

VnStatus VnOpenDump(const char* path, const VnOptions* options, VnDump** dump) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"path", path}, {"dump", dump}}));
    VN_ASSIGN_OR_RETURN(Dump opened, Dump::Open(path, ReadOptions{Complete(options).num_threads}));
    std::vector<std::string> damage = DamageMessages(opened);
    *dump = new VnDump{std::move(opened), std::move(damage)};
    return Done{};
  });
}

size_t VnDumpCount(const VnDump* dump) { return dump != nullptr ? dump->dump.tensors().size() : 0; }

VnStatus VnDumpInfo(const VnDump* dump, size_t index, VnTensorInfo* out) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckIndex(dump, index));
    VN_RETURN_IF_ERROR(CheckNotNull({{"info", out}}));
    const TensorInfo& info = dump->dump.tensors()[index];
    const std::string& damage = dump->damage[index];
    *out = {info.name.c_str(),
            info.name.size(),
            Name(info.dtype).data(),
            static_cast<int32_t>(info.shape.size()),
            info.shape.data(),
            info.num_bytes(),
            dump->dump.FileOf(index).c_str(),
            damage.empty() ? nullptr : damage.c_str()};
    return Done{};
  });
}

void VnCloseDump(VnDump* dump) { delete dump; }

VnStatus VnDumpLoad(const VnDump* dump, size_t index, VnLoaded** loaded) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckIndex(dump, index));
    VN_RETURN_IF_ERROR(CheckNotNull({{"loaded", loaded}}));
    VN_ASSIGN_OR_RETURN(TensorView view, dump->dump.Load(index));
    *loaded = new VnLoaded{std::move(view)};
    return Done{};
  });
}

VnStatus VnLoadedTensor(const VnLoaded* loaded, VnTensor* tensor) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"loaded", loaded}, {"tensor", tensor}}));
    const TensorView& view = loaded->view;
    *tensor = {view.data, Name(view.dtype).data(), static_cast<int32_t>(view.shape.size()), view.shape.data(),
               nullptr};
    return Done{};
  });
}

void VnCloseLoaded(VnLoaded* loaded) { delete loaded; }
