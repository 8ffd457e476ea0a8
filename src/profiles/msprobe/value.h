// The values that stand in the tables of the msprobe profile, and where their texts live.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vernier::msprobe {

// A value as the reference, a Python program, holds it. Booleans and None inside a dump have become texts by
// then.
struct Value {
  enum class Kind : std::uint8_t { kText, kInt, kFloat, kBool };
  Kind kind = Kind::kText;
  double number = 0;      // of kInt and kFloat; 0 or 1 of kBool
  std::string_view text;  // of kText; the digits of kInt, which may be too many for any integer type

  static Value Text(std::string_view text) { return {Kind::kText, 0, text}; }
  static Value Float(double number) { return {Kind::kFloat, number, {}}; }
  static Value Bool(bool value) { return {Kind::kBool, value ? 1.0 : 0.0, {}}; }

  bool is_number() const { return kind == Kind::kInt || kind == Kind::kFloat; }
  bool Is(std::string_view word) const { return kind == Kind::kText && text == word; }
};

// str(value): what Python would print.
void AppendText(const Value& value, std::string& out);
// As JSON. `python` writes NaN and Infinity as Python does, otherwise they are texts.
void AppendJsonNumber(double number, bool python, std::string& out);
void AppendJsonText(std::string_view text, std::string& out);
void AppendJsonValue(const Value& value, bool python, std::string& out);

// Owns the texts that are made while a batch of rows is worked on; they live as long as it does.
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
  void Grow(std::size_t wanted) {
    const std::size_t size = wanted > block_bytes_ ? wanted : block_bytes_;
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
    next_ = blocks_.back().get();
    left_ = size;
  }

  std::size_t block_bytes_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace vernier::msprobe
