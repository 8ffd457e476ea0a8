#include "precheck/details_table.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "format/csv.h"

namespace vernier::precheck {
namespace {

constexpr Detail kNeeded[] = {
    Detail::kName,        Detail::kDeviceDtype,  Detail::kShape,    Detail::kDual1000,
    Detail::kBinary,      Detail::kBalance,      Detail::kRmse,     Detail::kSmallValue,
    Detail::kMaxRelative, Detail::kMeanRelative, Detail::kInfNan,   Detail::kRelative,
    Detail::kAbsolute,    Detail::kMeanUlp,      Detail::kUlpShare, Detail::kMessage,
};

// Where each column stands in the file; fails with all that are missing.
Result<std::array<std::size_t, std::size(kNeeded)>> PlacesOf(std::span<const std::string> header,
                                                             std::string_view where) {
  std::array<std::size_t, std::size(kNeeded)> places{};
  std::string missing;
  for (std::size_t i = 0; i < std::size(kNeeded); ++i) {
    const ColumnName& name = kDetailColumns[At(kNeeded[i])];
    const auto found = std::find_if(header.begin(), header.end(), [&](const std::string& cell) {
      return cell == name.english || cell == name.chinese;
    });
    places[i] = static_cast<std::size_t>(found - header.begin());
    if (found == header.end()) missing += (missing.empty() ? "" : ", ") + std::string(name.english);
  }
  if (!missing.empty()) {
    return Error{ErrorCode::kBadHeader, std::string(where),
                 "no details of acc_check: column missing: " + missing};
  }
  return places;
}

}  // namespace

Result<DetailsTable> DetailsTable::Read(const std::filesystem::path& path) {
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(path.string()));
  VN_ASSIGN_OR_RETURN(DetailsTable table, FromText(TextOf(file), path.string()));
  if (file->changed()) return Error{ErrorCode::kFileChanged, path.string(), ""};
  return table;
}

Result<DetailsTable> DetailsTable::FromText(std::string_view text, std::string_view where) {
  DetailsTable table;
  std::optional<std::array<std::size_t, std::size(kNeeded)>> places;
  std::optional<Error> failure;
  ReadCsvTexts(text, [&](std::span<const std::string> cells) {
    if (!places) {
      auto found = PlacesOf(cells, where);
      if (!found) {
        failure = found.error();
        return false;
      }
      places = *found;
      return true;
    }
    DetailCells& row = table.rows_.emplace_back();
    for (std::size_t i = 0; i < std::size(kNeeded); ++i) {
      if ((*places)[i] < cells.size()) row.cells[At(kNeeded[i])] = table.texts_.Keep(cells[(*places)[i]]);
    }
    return true;
  });
  if (failure) return *failure;
  if (!places) return Error{ErrorCode::kBadHeader, std::string(where), "empty file"};
  table.by_name_.reserve(table.rows_.size());
  for (std::size_t i = 0; i < table.rows_.size(); ++i) {
    const auto [place, is_new] = table.by_name_.try_emplace(table.rows_[i][Detail::kName], Places{i, 0});
    if (!is_new && place->second.second == 0) place->second.second = i;
  }
  return table;
}

DetailsTable::Found DetailsTable::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return {};
  const Places& places = found->second;
  return {&rows_[places.first], places.second == 0 ? nullptr : &rows_[places.second]};
}

}  // namespace vernier::precheck
