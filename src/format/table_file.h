// Reads tables back that were written as csv or xlsx, by us or by others.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "vernier/result.h"

namespace vernier {

struct TableCell {
  enum class Kind { kEmpty, kText, kNumber, kBool };
  Kind kind = Kind::kEmpty;
  std::string text;  // as it is written; "True" or "False" for kBool
};

// Called for each row, the header first. Gives false to stop.
using TableRowSink = std::function<bool(std::span<const TableCell> cells)>;

// A csv file, or all sheets of an xlsx file one after another (each with its header). Fails on what is
// neither.
Result<Done> ReadTable(const std::filesystem::path& path, const TableRowSink& sink);

}  // namespace vernier
