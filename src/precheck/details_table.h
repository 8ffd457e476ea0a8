// accuracy_checking_details_*.csv of a device, read back: ours or the reference's, with either header.
#pragma once

#include <array>
#include <deque>
#include <filesystem>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "precheck/columns.h"
#include "vernier/cell.h"
#include "vernier/result.h"

namespace vernier::precheck {

struct DetailCells {
  std::array<std::string_view, kNumDetails> cells;  // of columns that nobody reads: empty
  std::string_view operator[](Detail column) const { return cells[At(column)]; }
};

class DetailsTable {
 public:
  // Fails for a file without one of the columns that a comparison needs, naming them.
  static Result<DetailsTable> Read(const std::filesystem::path& path);
  static Result<DetailsTable> FromText(std::string_view text, std::string_view where);

  const std::vector<DetailCells>& rows() const { return rows_; }
  // The rows of that name; the second one is null when there is one only.
  struct Found {
    const DetailCells *first = nullptr, *second = nullptr;
  };
  Found Find(std::string_view name) const;

 private:
  std::vector<DetailCells> rows_;
  TextArena texts_;
  struct Places {
    std::size_t first = 0, second = 0;  // second: 0 when there is none
  };
  std::unordered_map<std::string_view, Places> by_name_;
};

}  // namespace vernier::precheck
