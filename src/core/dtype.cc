#include "vernier/dtype.h"

namespace vernier {
namespace {

struct DtypeRow {
  std::string_view name;
  DtypeClass kind;
};

constexpr DtypeRow kRows[] = {
#define VN_ROW(id, type, name, kind) {name, DtypeClass::kind},
    VN_FOR_EACH_DTYPE(VN_ROW)
#undef VN_ROW
};

}  // namespace

std::string_view Name(Dtype dtype) { return kRows[static_cast<std::size_t>(dtype)].name; }

DtypeClass Class(Dtype dtype) { return kRows[static_cast<std::size_t>(dtype)].kind; }

std::optional<Dtype> ParseDtype(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    if (kRows[i].name == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

}  // namespace vernier
