// A pull parser for JSON as Python reads and writes it: NaN and Infinity are numbers, integers have any
// length, bytes need not be UTF-8. Made for files of hundreds of MB of which only parts are looked at: it
// keeps no index and no copy, so memory is the file's own pages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "vernier/tensor.h"

namespace vernier {

enum class JsonKind { kNull, kBool, kInt, kFloat, kString, kArray, kObject, kBad };

// Thread-compatible. A failure sticks: every later call does nothing and ok() stays false.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text, std::size_t position = 0) : text_(text), at_(position) {}

  bool ok() const { return problem_ == nullptr; }
  const char* problem() const { return problem_; }
  // It failed because the text stops in the middle of something.
  bool ran_out() const { return problem_ == kRanOut || problem_ == kTextRanOut; }
  std::size_t position() const { return at_; }
  void MoveTo(std::size_t position) {
    at_ = position;
    problem_ = nullptr;
  }
  void Fail(const char* problem) {
    if (ok()) problem_ = problem;
  }

  // The kind of the value that starts here, blanks before it skipped.
  JsonKind Peek();
  bool AtEnd();  // nothing but blanks follow

  // Each takes one value of its kind and fails on another.
  void TakeNull();
  bool TakeBool();
  double TakeNumber();
  std::string_view TakeNumberText();
  // The text between the quotes, escapes left as they are; `escaped` says whether there are any.
  std::string_view TakeRawString(bool& escaped);
  // Decoded: a view of the file when nothing had to be decoded, else of `buffer`.
  std::string_view TakeString(std::string& buffer);
  // Takes a value of any kind. Looks at brackets and strings only, so what is malformed inside is stepped
  // over; gives up only when the brackets do not close.
  void Skip();

  // Calls fn(raw key, escaped) for each member; fn must take the value.
  template <class Fn>
  void ForEachMember(Fn&& fn) {
    if (!Open('{', '}')) return;
    do {
      bool escaped = false;
      const std::string_view key = TakeKey(escaped);
      if (!ok()) return;
      fn(key, escaped);
    } while (ok() && More('}'));
  }
  // Calls fn() for each element; fn must take the value.
  template <class Fn>
  void ForEachElement(Fn&& fn) {
    if (!Open('[', ']')) return;
    do {
      fn();
    } while (ok() && More(']'));
  }

 private:
  // Arrays, because ran_out() knows them by their address, and a literal may have several.
  static constexpr char kRanOut[] = "the file ends inside a value";
  static constexpr char kTextRanOut[] = "a text does not end";

  void SkipBlanks();
  bool Open(char open, char close);  // false when empty or failed
  bool More(char close);
  std::string_view TakeKey(bool& escaped);
  std::size_t StringEnd(std::size_t from, bool& escaped);  // position of the closing quote
  bool TakeWord(std::string_view word);
  void SkipToBracket();

  std::string_view text_;
  std::size_t at_;
  const char* problem_ = nullptr;
};

// The bytes of a file as text.
std::string_view TextOf(const FileRef& file);

// What the escapes in the text between two quotes stand for. Lone surrogates stay as they are written.
std::string DecodeJsonString(std::string_view raw);

}  // namespace vernier
