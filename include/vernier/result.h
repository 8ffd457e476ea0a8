// Errors are values. Result<T> holds either a T or an Error; functions that can fail return it, and nothing
// under src/ throws, prints or exits. Has the members of C++23's std::expected that we use.
#pragma once

#include <cassert>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace vernier {

enum class ErrorCode {
  kBadMagic,
  kTruncated,
  kBadHeader,
  kBadShape,
  kUnsafePickle,
  kUnsupported,
  kNotFound,
  kNoPermission,
  kIo,
  kClosedPipe,
  kFileChanged,
  kNotADump,
  kNoPair,
  kShapeMismatch,
  kDtypeMismatch,
  kBadArgument,
  kTooLarge,
  kCancelled,
  kInternal,
};

// One row of the error table: what the code means to a user and what to do next.
struct ErrorInfo {
  ErrorCode code;
  std::string_view key;   // stable, upper case, for scripts
  std::string_view says;  // completes "<where>: <says>"
  std::string_view try_;  // the next step; may be empty
};

const ErrorInfo& Info(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string where;   // the file, and the field or tensor inside it
  std::string detail;  // what was found there

  // "<where>: <says>: <detail> [KEY]"; one line, control characters escaped.
  std::string Message() const;
};

// Puts `where` in front of what the error already names: a file in front of a field.
Error In(std::string_view where, Error error);

// The value of a successful Result that carries nothing.
struct Done {};

// `Failure` is another type than Error where a caller has to tell kinds of failures apart.
template <class T, class Failure = Error>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Failure error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)                                        // NOLINT(google-explicit-constructor)
      requires(!std::same_as<Failure, Error>)
      : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  // REQUIRES: has_value()
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !has_value()
  const Failure& error() const& { return std::get<1>(state_); }
  Failure&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Failure> state_;
};

#define VN_CONCAT_INNER(a, b) a##b
#define VN_CONCAT(a, b) VN_CONCAT_INNER(a, b)

// Evaluates an expression that gives a Result; returns its Error from the calling function, or binds its
// value.
#define VN_ASSIGN_OR_RETURN(lhs, expression) \
  VN_ASSIGN_OR_RETURN_IMPL(VN_CONCAT(vn_result_, __LINE__), lhs, expression)
#define VN_ASSIGN_OR_RETURN_IMPL(result, lhs, expression) \
  auto result = (expression);                             \
  if (!result) return std::move(result).error();          \
  lhs = std::move(result).value()

#define VN_RETURN_IF_ERROR(expression)                                                  \
  do {                                                                                  \
    if (auto vn_result = (expression); !vn_result) return std::move(vn_result).error(); \
  } while (false)

}  // namespace vernier
