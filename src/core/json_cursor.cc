#include "core/json_cursor.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/mapped_file.h"
#include "core/python_text.h"
#include "core/text.h"

namespace vernier {
namespace {

// In the order of JsonError.
constexpr const char* kProblems[] = {nullptr,
                                     "stopped",
                                     "the file ends inside a value",
                                     "a string has no end",
                                     "expected null",
                                     "expected true or false",
                                     "expected a number",
                                     "expected a string",
                                     "expected ':'",
                                     "expected an object",
                                     "expected a list",
                                     "expected ',' or a closing bracket",
                                     "expected a value",
                                     "the record is not an object",
                                     "nested too deeply",
                                     "something follows the end",
                                     "unknown key",
                                     "unknown value",
                                     "a number out of range"};

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

constexpr std::array<bool, 256> kEndsWord = [] {
  std::array<bool, 256> table{};
  for (const unsigned char c : {' ', '\n', '\r', '\t', ',', ']', '}', ':'}) table[c] = true;
  return table;
}();
bool EndsWord(char c) { return kEndsWord[static_cast<unsigned char>(c)]; }

// Eight characters at a time. Each of these gives a word in which the lowest set bit belongs to the first
// character that is looked for; bits above it mean nothing.
constexpr std::uint64_t kEach = 0x0101010101010101;
std::uint64_t EightAt(const char* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}
std::uint64_t Zeros(std::uint64_t word) { return (word - kEach) & ~word & (kEach << 7); }
std::uint64_t Equal(std::uint64_t word, char c) {
  return Zeros(word ^ kEach * static_cast<unsigned char>(c));
}
std::ptrdiff_t FirstOf(std::uint64_t found) { return std::countr_zero(found) / 8; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The code unit of "uXXXX" behind a backslash, or -1.
int CodeUnit(std::string_view raw, std::size_t at) {
  if (at + 5 > raw.size() || raw[at] != 'u') return -1;
  int value = 0;
  for (std::size_t i = at + 1; i < at + 5; ++i) {
    const int digit = HexDigit(raw[i]);
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

constexpr bool IsHighSurrogate(int unit) { return unit >= 0xD800 && unit < 0xDC00; }
constexpr bool IsLowSurrogate(int unit) { return unit >= 0xDC00 && unit < 0xE000; }

// Decodes the escape whose backslash is at raw[at]; gives the position behind it.
std::size_t AppendEscape(std::string_view raw, std::size_t at, std::string& out) {
  static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  if (at + 1 >= raw.size()) {
    out += '\\';
    return raw.size();
  }
  const std::size_t letter = kLetters.find(raw[at + 1]);
  if (letter != std::string_view::npos) {
    out += kMeanings[letter];
    return at + 2;
  }
  const int unit = CodeUnit(raw, at + 1);
  if (unit < 0) {
    out += '\\';
    return at + 1;
  }
  if (IsHighSurrogate(unit) && at + 6 < raw.size() && raw[at + 6] == '\\') {
    const int low = CodeUnit(raw, at + 7);
    if (IsLowSurrogate(low)) {
      AppendUtf8(static_cast<std::uint32_t>(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)), out);
      return at + 12;
    }
  }
  if (IsHighSurrogate(unit) || IsLowSurrogate(unit)) {
    out += raw.substr(at, 6);
  } else {
    AppendUtf8(static_cast<std::uint32_t>(unit), out);
  }
  return at + 6;
}

}  // namespace

std::string_view TextOf(const FileRef& file) {
  const auto bytes = file->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string DecodeJsonString(std::string_view raw) {
  std::string text;
  text.reserve(raw.size());
  for (std::size_t at = 0; at < raw.size();) {
    if (raw[at] == '\\') {
      at = AppendEscape(raw, at, text);
    } else {
      text += raw[at++];
    }
  }
  return text;
}

const char* JsonCursor::problem() const { return kProblems[static_cast<std::size_t>(error_)]; }

void JsonCursor::SkipBlanks() {
  while (at_ < text_.size() && IsBlank(text_[at_])) ++at_;
}

bool JsonCursor::AtEnd() {
  SkipBlanks();
  return at_ == text_.size();
}

JsonKind JsonCursor::Peek() {
  SkipBlanks();
  if (!ok() || at_ == text_.size()) return JsonKind::kBad;
  switch (text_[at_]) {
    case '{':
      return JsonKind::kObject;
    case '[':
      return JsonKind::kArray;
    case '"':
      return JsonKind::kString;
    case 't':
    case 'f':
      return JsonKind::kBool;
    case 'n':
      return JsonKind::kNull;
    case 'N':
    case 'I':
      return JsonKind::kFloat;
    default:
      break;
  }
  if (text_[at_] != '-' && !(text_[at_] >= '0' && text_[at_] <= '9')) return JsonKind::kBad;
  for (std::size_t i = at_ + 1; i < text_.size() && !EndsWord(text_[i]); ++i) {
    if (text_[i] == '.' || text_[i] == 'e' || text_[i] == 'E' || text_[i] == 'I') return JsonKind::kFloat;
  }
  return JsonKind::kInt;
}

bool JsonCursor::TakeWord(std::string_view word) {
  const std::size_t end = at_ + word.size();
  if (text_.substr(at_, word.size()) != word || (end < text_.size() && !EndsWord(text_[end]))) return false;
  at_ = end;
  return true;
}

void JsonCursor::TakeNull() {
  SkipBlanks();
  if (ok() && !TakeWord("null")) Fail(JsonError::kExpectedNull);
}

bool JsonCursor::TakeBool() {
  SkipBlanks();
  if (!ok()) return false;
  if (TakeWord("true")) return true;
  if (!TakeWord("false")) Fail(JsonError::kExpectedBool);
  return false;
}

std::string_view JsonCursor::TakeNumberText() {
  SkipBlanks();
  if (!ok()) return {};
  const std::size_t start = at_;
  while (at_ < text_.size() && !EndsWord(text_[at_])) ++at_;
  const std::string_view word = text_.substr(start, at_ - start);
  if (word == "NaN" || word == "Infinity" || word == "-Infinity") return word;
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t first = i;
    while (i < word.size() && word[i] >= '0' && word[i] <= '9') ++i;
    return i - first;
  };
  if (i < word.size() && word[i] == '-') ++i;
  const std::size_t whole_start = i;
  const std::size_t whole = digits();
  bool good = whole == 1 || (whole > 1 && word[whole_start] != '0');
  if (i < word.size() && word[i] == '.') {
    ++i;
    good = digits() > 0 && good;
  }
  if (i < word.size() && (word[i] | 0x20) == 'e') {
    ++i;
    if (i < word.size() && (word[i] == '+' || word[i] == '-')) ++i;
    good = digits() > 0 && good;
  }
  if (!good || i != word.size()) {
    Fail(JsonError::kExpectedNumber);
    return {};
  }
  return word;
}

double JsonCursor::TakeNumber() {
  const std::string_view text = TakeNumberText();
  return ok() ? ParsePythonFloat(text).value_or(0) : 0;
}

std::size_t JsonCursor::StringEnd(std::size_t from, bool& escaped) {
  escaped = false;
  const char* at = text_.data() + from;
  const char* const end = text_.data() + text_.size();
  while (at < end) {
    if (end - at >= 8) {
      const std::uint64_t word = EightAt(at), found = Equal(word, '"') | Equal(word, '\\');
      if (found == 0) {
        at += 8;
        continue;
      }
      at += FirstOf(found);
    }
    if (*at == '"') return static_cast<std::size_t>(at - text_.data());
    if (*at == '\\') {
      escaped = true;
      ++at;
    }
    ++at;
  }
  return std::string_view::npos;
}

std::string_view JsonCursor::TakeRawString(bool& escaped) {
  SkipBlanks();
  if (!ok()) return {};
  if (at_ == text_.size() || text_[at_] != '"') {
    Fail(at_ == text_.size() ? JsonError::kEndsInsideValue : JsonError::kExpectedText);
    return {};
  }
  const std::size_t end = StringEnd(at_ + 1, escaped);
  if (end == std::string_view::npos) {
    Fail(JsonError::kEndsInsideText);
    return {};
  }
  const std::string_view raw = text_.substr(at_ + 1, end - at_ - 1);
  at_ = end + 1;
  return raw;
}

std::string_view JsonCursor::TakeString(std::string& buffer) {
  bool escaped = false;
  const std::string_view raw = TakeRawString(escaped);
  if (!ok()) return {};
  std::string_view text = raw;
  if (escaped) {
    buffer = DecodeJsonString(raw);
    text = buffer;
  }
  if (std::string repaired = RepairUtf8(text); !repaired.empty()) {
    buffer = std::move(repaired);
    text = buffer;
  }
  return text;
}

std::string_view JsonCursor::TakeKey(bool& escaped) {
  const std::string_view key = TakeRawString(escaped);
  SkipBlanks();
  if (ok() && (at_ == text_.size() || text_[at_] != ':')) {
    Fail(at_ == text_.size() ? JsonError::kEndsInsideValue : JsonError::kExpectedColon);
  }
  ++at_;
  return key;
}

// Takes `c` when it comes next, blanks before it skipped.
bool JsonCursor::Take(char c) {
  SkipBlanks();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

bool JsonCursor::Open(char open, char close) {
  if (!ok()) return false;
  if (!Take(open)) Fail(open == '{' ? JsonError::kExpectedObject : JsonError::kExpectedList);
  return ok() && !Take(close);
}

bool JsonCursor::More(char close) {
  if (Take(',')) return true;
  if (!Take(close)) Fail(at_ == text_.size() ? JsonError::kEndsInsideValue : JsonError::kExpectedMore);
  return false;
}

// To the next bracket or quote. REQUIRES: not at one
void JsonCursor::SkipToBracket() {
  const char* const start = text_.data();
  for (++at_; at_ + 8 <= text_.size(); at_ += 8) {
    // The bit that tells '[' from '{' and ']' from '}' is the same, and set in a quote.
    const std::uint64_t word = EightAt(start + at_), either = word | kEach * 0x20;
    const std::uint64_t found = Equal(word, '"') | Equal(either, '{') | Equal(either, '}');
    if (found == 0) continue;
    at_ += static_cast<std::size_t>(FirstOf(found));
    return;
  }
}

void JsonCursor::Skip() {
  SkipBlanks();
  if (!ok()) return;
  std::size_t depth = 0;
  bool escaped = false;
  do {
    if (at_ >= text_.size()) return Fail(JsonError::kEndsInsideValue);
    const char c = text_[at_];
    if (c == '"') {
      const std::size_t end = StringEnd(at_ + 1, escaped);
      if (end == std::string_view::npos) return Fail(JsonError::kEndsInsideText);
      at_ = end + 1;
    } else if (c == '{' || c == '[') {
      ++depth, ++at_;
    } else if (c == '}' || c == ']') {
      if (depth == 0) return Fail(JsonError::kExpectedValue);
      --depth, ++at_;
    } else if (depth > 0) {
      SkipToBracket();
    } else {
      const std::size_t start = at_;
      while (at_ < text_.size() && !EndsWord(text_[at_])) ++at_;
      if (at_ == start) return Fail(JsonError::kExpectedValue);
    }
  } while (depth > 0);
}

}  // namespace vernier
