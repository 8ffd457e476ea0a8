// What the files behind c_api.h share.
#pragma once

#include <exception>
#include <initializer_list>
#include <new>
#include <stop_token>
#include <string>
#include <vector>

#include "vernier/c_api.h"
#include "vernier/cell.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

struct VnCancel {
  std::stop_source source;
};

struct VnTable {
  std::vector<std::string> columns;
  std::vector<vernier::KeptCells> rows;  // a row may be shorter: nothing behind its end
};

namespace vernier {

// Keeps the error for VnLastError() and gives the status that stands for it.
VnStatus Failed(const Error& error);

// Runs what a call of the API does. The one place where an exception, which only the standard library could
// throw, becomes a status.
template <class Fn>
VnStatus Guarded(Fn&& fn) noexcept {
  try {
    const Result<Done> result = fn();
    return result ? VN_OK : Failed(result.error());
  } catch (const std::bad_alloc&) {
    return Failed(Error{ErrorCode::kTooLarge, "", "not enough memory"});
  } catch (const std::exception& exception) {
    return Failed(Error{ErrorCode::kInternal, "", exception.what()});
  } catch (...) {
    return Failed(Error{ErrorCode::kInternal, "", "unknown exception"});
  }
}

Error BadArgument(std::string where, std::string detail);

// Fails for the first of the arguments that is NULL.
struct NamedPointer {
  const char* name;
  const void* pointer;
};
Result<Done> CheckNotNull(std::initializer_list<NamedPointer> arguments);

// The caller's options with defaults for what an older caller does not know.
VnOptions Complete(const VnOptions* options);

// A view of the caller's memory, or of a C order copy of it. `role` names the argument in errors.
Result<TensorView> ViewOf(const VnTensor* tensor, const char* role);

}  // namespace vernier
