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

std::string UnknownNames(const NameMapping& mapping, const std::unordered_set<std::string>& target,
                         const std::unordered_set<std::string>& golden) {
  constexpr std::size_t kShown = 3;
  std::string shown;
  std::size_t count = 0;
  const auto look = [&](const std::string& name, const std::unordered_set<std::string>& known,
                        const char* side) {
    if (known.contains(name) || ++count > kShown) return;
    shown += (shown.empty() ? "" : ", ") + name + " (" + side + ")";
  };
  for (const auto& [from, to] : mapping) {
    look(from, target, "target");
    look(to, golden, "golden");
  }
  if (count == 0) return "";
  return "the mapping has " + std::to_string(count) + " name" + (count == 1 ? "" : "s") +
         " that the data does not have: " + shown + (count > kShown ? ", …" : "");
}

}  // namespace vernier
