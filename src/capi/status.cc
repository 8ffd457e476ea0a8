// Versions, errors, options and cancellation.
#include <algorithm>
#include <cstring>

#include "capi/c_api_internal.h"
#include "vernier/measure.h"

namespace vernier {
namespace {

struct LastError {
  std::string key, where, detail, hint, message;
  VnError view{"", "", "", "", ""};
};

LastError& OfThisThread() {
  thread_local LastError last;
  return last;
}

}  // namespace

VnStatus Failed(const Error& error) {
  const ErrorInfo& info = Info(error.code);
  LastError& last = OfThisThread();
  last.key = info.key;
  last.where = error.where;
  last.detail = error.detail;
  last.hint = info.try_;
  last.message = error.Message();
  last.view = {last.key.c_str(), last.where.c_str(), last.detail.c_str(), last.hint.c_str(),
               last.message.c_str()};
  return error.code == ErrorCode::kCancelled ? VN_CANCELLED : VN_FAILED;
}

Error BadArgument(std::string where, std::string detail) {
  return Error{ErrorCode::kBadArgument, std::move(where), std::move(detail)};
}

Result<Done> CheckNotNull(std::initializer_list<NamedPointer> arguments) {
  for (const NamedPointer& argument : arguments) {
    if (argument.pointer == nullptr) return BadArgument(argument.name, "is NULL");
  }
  return Done{};
}

VnOptions Complete(const VnOptions* options) {
  VnOptions complete;
  VnInitOptions(&complete);
  if (options != nullptr) {
    std::memcpy(&complete, options, std::min(options->struct_bytes, sizeof complete));
    complete.struct_bytes = sizeof complete;
  }
  return complete;
}

}  // namespace vernier

using namespace vernier;  // NOLINT: the functions below are C

int32_t VnApiVersion(void) { return VN_API_VERSION; }
const char* VnVersion(void) { return VERNIER_VERSION; }
const char* VnTargetName(void) { return ActiveTargetName().data(); }

const VnError* VnLastError(void) { return &OfThisThread().view; }

VnStatus VnNewCancel(VnCancel** cancel) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"cancel", cancel}}));
    *cancel = new VnCancel;
    return Done{};
  });
}
void VnRequestCancel(VnCancel* cancel) {
  if (cancel != nullptr) cancel->source.request_stop();
}
void VnCloseCancel(VnCancel* cancel) { delete cancel; }

void VnInitOptions(VnOptions* options) {
  if (options == nullptr) return;
  *options = VnOptions{};
  options->struct_bytes = sizeof *options;
  options->rtol = options->atol = -1;
}
