// A pull parser for JSON as Python reads and writes it: NaN and Infinity are numbers, integers have any
// length, bytes need not be UTF-8. Made for files of hundreds of MB of which only parts are looked at: it
// keeps no index and no copy, so memory is the file's own pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "vernier/tensor.h"

namespace vernier {

enum class JsonKind { kNull, kBool, kInt, kFloat, kString, kArray, kObject, kBad };

// Why a cursor goes no further; those from kNotAnObject on are for its users.
enum class JsonError : std::uint8_t {
  kNone,
  kStopped,  // its user has seen enough
  kEndsInsideValue,
  kEndsInsideText,
  kExpectedNull,
  kExpectedBool,
  kExpectedNumber,
  kExpectedText,
  kExpectedColon,
  kExpectedObject,
  kExpectedList,
  kExpectedMore,
  kExpectedValue,
  kNotAnObject,
  kTooDeep,
  kMoreAfterEnd,
  kUnknownKey,
  kUnknownChoice,
  kOutOfRange,
};

// Thread-compatible. A failure sticks: every later call does nothing and ok() stays false.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text, std::size_t position = 0) : text_(text), at_(position) {}

  bool ok() const { return error_ == JsonError::kNone; }
  JsonError error() const { return error_; }
  const char* problem() const;  // in words; null when there is none
  // It failed because the text stops in the middle of something.
  bool ran_out() const {
    return error_ == JsonError::kEndsInsideValue || error_ == JsonError::kEndsInsideText;
  }
  std::size_t position() const { return at_; }
  void MoveTo(std::size_t position) {
    at_ = position;
    error_ = JsonError::kNone;
  }
  void Fail(JsonError error) {
    if (ok()) error_ = error;
  }
  void Stop() { Fail(JsonError::kStopped); }

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
  void SkipBlanks();
  bool Take(char c);
  bool Open(char open, char close);  // false when empty or failed
  bool More(char close);
  std::string_view TakeKey(bool& escaped);
  std::size_t StringEnd(std::size_t from, bool& escaped);  // position of the closing quote
  bool TakeWord(std::string_view word);
  void SkipToBracket();

  std::string_view text_;
  std::size_t at_;
  JsonError error_ = JsonError::kNone;
};

// The bytes of a file as text.
std::string_view TextOf(const FileRef& file);

// What the escapes in the text between two quotes stand for. Lone surrogates stay as they are written.
std::string DecodeJsonString(std::string_view raw);

}  // namespace vernier
