#include <algorithm>

#include "core/text.h"
#include "profiles/msprobe/keys_internal.h"
#include "vernier/match.h"

namespace vernier::msprobe {
namespace {

constexpr std::string_view kDirections[] = {"forward", "backward", "parameters_grad"};

std::string Join(const std::vector<std::string_view>& parts) {
  std::string name;
  for (const std::string_view part : parts) {
    if (!name.empty()) name += '.';
    name += part;
  }
  return name;
}

// Where the call number of a backward record stands in its name, or npos.
std::size_t BackwardNumberAt(const std::vector<std::string_view>& parts) {
  const std::size_t n = parts.size();
  if (n >= 2 && parts[n - 1] == "backward" && IsDigits(parts[n - 2])) return n - 2;
  if (n >= 2 && parts[n - 2] == "backward" && IsDigits(parts[n - 1])) return n - 1;
  return std::string_view::npos;
}

std::vector<std::string> RenumberBackward(const Dump& dump) {
  std::vector<std::string> renamed(dump.records().size());
  std::unordered_map<std::string, std::size_t> seen;
  for (std::size_t i = 0; i < dump.records().size(); ++i) {
    std::vector<std::string_view> parts = Split(dump.records()[i].name, '.');
    const std::size_t at = BackwardNumberAt(parts);
    if (at == std::string_view::npos) continue;
    parts[at] = "";
    const std::string number = std::to_string(seen[Join(parts)]++);
    parts[at] = number;
    renamed[i] = Join(parts);
  }
  return renamed;
}

}  // namespace

RowKeys::RowKeys(const Dump& dump, const RowMatchOptions& options, Side side)
    : dump_(dump),
      data_mapping_(side == Side::kNpu ? options.data_mapping : nullptr),
      cell_mapping_(side == Side::kNpu ? options.cell_mapping : nullptr),
      renames_(side == Side::kNpu ? options.renames : nullptr) {
  if (options.renumber_backward && options.data_mapping == nullptr) renamed_ = RenumberBackward(dump);
}

void RowKeys::KeyOf(std::uint32_t row, std::string& key) const {
  key.clear();
  const Row& entry = dump_.rows()[row];
  dump_.AppendName(entry, key);
  if (!renamed_.empty() && !renamed_[entry.record].empty()) {
    const std::string_view original = dump_.records()[entry.record].name;
    if (key.starts_with(original)) key.replace(0, original.size(), renamed_[entry.record]);
  }
  if (data_mapping_ != nullptr) {
    if (const auto found = data_mapping_->find(key); found != data_mapping_->end()) key = found->second;
  }
  if (renames_ != nullptr && !renames_->empty()) key = Renamed(std::move(key), *renames_);
  if (cell_mapping_ != nullptr) key = CellName(key, *cell_mapping_);
}

// Components are compared whole, so that a module called forward_net keeps its name. In an API the number
// stands before the direction, in a module behind it.
std::string FuzzyName(std::string_view name) {
  std::vector<std::string_view> parts = Split(name, '.');
  const auto direction = std::find_if(parts.begin(), parts.end(), [](std::string_view part) {
    return part == kDirections[0] || part == kDirections[1];
  });
  if (direction == parts.end()) return std::string(name);
  if (direction != parts.begin() && IsDigits(*(direction - 1)) && parts[0] != "Module" &&
      parts[0] != "Cell") {
    parts.erase(direction - 1);
  } else if (direction + 1 != parts.end() && IsDigits(*(direction + 1))) {
    parts.erase(direction + 1);
  }
  return Join(parts);
}

std::string CellName(std::string_view name, const CellMapping& mapping) {
  std::string key(name);
  if (const std::size_t cell = key.find("Cell"); cell != std::string::npos) key.replace(cell, 4, "Module");
  std::size_t end = std::string::npos;
  for (const std::string_view direction : kDirections) {
    if (end == std::string::npos) end = key.find('.' + std::string(direction) + '.');
  }
  if (end == std::string::npos) return {};
  const std::size_t start = key.find('.') + 1;
  if (start == 0 || start > end) return key;
  std::string part = key.substr(start, end - start);
  const auto whole =
      std::find_if(mapping.begin(), mapping.end(), [&](const auto& entry) { return entry.first == part; });
  if (whole != mapping.end()) {
    part = whole->second;
  } else {
    for (const auto& [from, to] : mapping) {
      if (const std::size_t at = part.find(from); at != std::string::npos && !from.empty())
        part.replace(at, from.size(), to);
    }
  }
  return key.substr(0, start) + part + key.substr(end);
}

}  // namespace vernier::msprobe
