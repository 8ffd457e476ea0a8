#include "vernier/cell.h"

#include "core/json_writer.h"
#include "core/python_text.h"

namespace vernier {

void AppendText(const Cell& cell, std::string& out) {
  switch (cell.kind) {
    case Cell::Kind::kNone:
      break;
    case Cell::Kind::kBool:
      out += cell.integer != 0 ? "True" : "False";
      break;
    case Cell::Kind::kInt:
      if (cell.text.empty()) return AppendInteger(cell.integer, out);
      out += cell.text;
      break;
    case Cell::Kind::kUint:
      AppendInteger(static_cast<std::uint64_t>(cell.integer), out);
      break;
    case Cell::Kind::kNumber:
      AppendPythonFloat(cell.number, out);
      break;
    default:
      out += cell.text;
  }
}

std::string CellText(const Cell& cell) {
  std::string text;
  AppendText(cell, text);
  return text;
}

void TextArena::Grow(std::size_t wanted) {
  const std::size_t size = wanted > block_bytes_ ? wanted : block_bytes_;
  blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
  next_ = blocks_.back().get();
  left_ = size;
}

KeptCells::KeptCells(std::span<const Cell> cells) : cells_(cells.begin(), cells.end()) {
  std::size_t num_bytes = 0;
  for (const Cell& cell : cells_) num_bytes += cell.text.size();
  texts_ = std::make_unique_for_overwrite<char[]>(num_bytes);
  char* next = texts_.get();
  for (Cell& cell : cells_) {
    if (cell.text.empty()) continue;
    std::memcpy(next, cell.text.data(), cell.text.size());
    cell.text = {next, cell.text.size()};
    next += cell.text.size();
  }
}

}  // namespace vernier
