// A cell of a table, and where the texts of cells live.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vernier {

// A cell keeps what is meant and how it is shown: where a family of dumps fixes the digits, `text` stands
// beside `number`, and nobody has to read the number out of the text again. A plain value; `text` is a view
// of memory that lives elsewhere, often in a TextArena.
struct Cell {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,     // `integer`; where `text` is set that, which may have more digits, and `number` is near it
    kUint,    // `integer` has its bits
    kNumber,  // `number`
    kShown,   // `number`, shown as `text` everywhere: "12.5%"
    kText,
    kJson,  // `text` is JSON, for json and jsonl only; empty: not even its key is there
  };
  Kind kind = Kind::kNone;
  double number = 0;
  std::int64_t integer = 0;
  std::string_view text;

  Cell() = default;
  template <std::same_as<bool> Bool>                       // and not whatever converts to it, as pointers do
  Cell(Bool value) : kind(Kind::kBool), integer(value) {}  // NOLINT(google-explicit-constructor)
  Cell(std::int64_t value)                                 // NOLINT(google-explicit-constructor)
      : kind(Kind::kInt), number(static_cast<double>(value)), integer(value) {}
  Cell(std::uint64_t value)  // NOLINT(google-explicit-constructor)
      : kind(Kind::kUint), number(static_cast<double>(value)), integer(static_cast<std::int64_t>(value)) {}
  Cell(double value) : kind(Kind::kNumber), number(value) {}          // NOLINT(google-explicit-constructor)
  Cell(std::string_view value) : kind(Kind::kText), text(value) {}    // NOLINT(google-explicit-constructor)
  Cell(const std::string& value) : kind(Kind::kText), text(value) {}  // NOLINT(google-explicit-constructor)
  Cell(const char* value) : kind(Kind::kText), text(value) {}         // NOLINT(google-explicit-constructor)
  Cell(std::string&&) = delete;  // nobody would keep its text: see TextArena

  static Cell Digits(double number, std::string_view digits) { return {Kind::kInt, number, digits}; }
  static Cell Shown(double number, std::string_view text) { return {Kind::kShown, number, text}; }
  static Cell Json(std::string_view json) { return {Kind::kJson, 0, json}; }

  bool is_number() const { return kind == Kind::kInt || kind == Kind::kUint || kind == Kind::kNumber; }
  bool Is(std::string_view word) const { return kind == Kind::kText && text == word; }

 private:
  Cell(Kind kind_of, double value, std::string_view shown) : kind(kind_of), number(value), text(shown) {}
};

// str() of the value in Python, nothing for kNone: what csv files and messages show.
void AppendText(const Cell& cell, std::string& out);
std::string CellText(const Cell& cell);

// Owns texts that are made while rows are worked on; they live as long as it does, also when it is moved.
// Thread-compatible.
class TextArena {
 public:
  explicit TextArena(std::size_t block_bytes = std::size_t{1} << 15) : block_bytes_(block_bytes) {}

  std::string_view Keep(std::string_view text) {
    if (text.empty()) return {};
    if (text.size() > left_) Grow(text.size());
    char* const copy = next_;
    std::memcpy(copy, text.data(), text.size());
    next_ += text.size();
    left_ -= text.size();
    return {copy, text.size()};
  }

 private:
  void Grow(std::size_t wanted);

  std::size_t block_bytes_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;
  std::size_t left_ = 0;
};

// The cells of one row with their texts, for as long as they are needed.
class KeptCells {
 public:
  KeptCells() = default;
  explicit KeptCells(std::span<const Cell> cells);
  std::span<const Cell> cells() const { return cells_; }

 private:
  std::vector<Cell> cells_;
  std::unique_ptr<char[]> texts_;
};

}  // namespace vernier
