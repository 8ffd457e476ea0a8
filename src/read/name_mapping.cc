#include "read/name_mapping.h"

#include <yaml-cpp/yaml.h>

#include "core/json_cursor.h"
#include "core/mapped_file.h"

namespace vernier {

Result<NameMapping> ReadNameMapping(const std::filesystem::path& path) {
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(path));
  NameMapping mapping;
  try {  // yaml-cpp throws
    const YAML::Node root = YAML::Load(std::string(TextOf(file)));
    if (!root.IsMap()) return Error{ErrorCode::kBadShape, path.string(), "expected an object of names"};
    for (const auto& entry : root)
      mapping.emplace_back(entry.first.as<std::string>(), entry.second.as<std::string>());
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kBadHeader, path.string(), exception.what()};
  }
  return mapping;
}

}  // namespace vernier
