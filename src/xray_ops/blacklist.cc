#include "xray_ops/blacklist.h"

#include <fnmatch.h>

#include <algorithm>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "xray_ops/shipped.h"

namespace vernier::xray_ops {
namespace {

std::string_view Trimmed(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
}

bool Matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

}  // namespace

Blacklist Blacklist::Shipped() {
  Blacklist list;
  list.AddLines(kBlacklist);
  return list;
}

Result<Done> Blacklist::AddFile(const std::filesystem::path& path) {
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(path.string()));
  const std::string_view text = TextOf(file);
  if (text.find('\0') != std::string_view::npos)
    return Error{ErrorCode::kBadArgument, path.string(), "expected text, one pattern a line"};
  AddLines(text);
  return Done{};
}

void Blacklist::AddLines(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view pattern = Trimmed(text.substr(0, end));
    if (!pattern.empty()) patterns_.emplace_back(pattern);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

bool Blacklist::Has(std::string_view op) const {
  const std::size_t dot = op.find('.');
  const std::string whole(op), local(dot == std::string_view::npos ? op : op.substr(dot + 1));
  const std::string name = local.substr(0, local.find('.'));
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const std::string& pattern) {
    if (pattern.find('.') == std::string::npos) return Matches(pattern, name);
    return Matches(pattern, local) || Matches(pattern, whole);
  });
}

}  // namespace vernier::xray_ops
