// The table of errors: key, meaning, what to try.
#include <iterator>

#include "core/text.h"
#include "vernier/result.h"

namespace vernier {
namespace {

// clang-format off
constexpr ErrorInfo kErrorTable[] = {
    // code                      key               says                                              try
    {ErrorCode::kBadMagic,       "BAD_MAGIC",      "not the format its name claims",                 "vernier inspect FILE"},
    {ErrorCode::kTruncated,      "TRUNCATED",      "the file ends too early",                        "copy or dump it again"},
    {ErrorCode::kBadHeader,      "BAD_HEADER",     "the header is damaged",                          "copy or dump it again"},
    {ErrorCode::kBadShape,       "BAD_SHAPE",      "the shape does not fit the data",                "copy or dump it again"},
    {ErrorCode::kUnsafePickle,   "UNSAFE_PICKLE",  "the pickle asks for code that is never executed","save tensors only"},
    {ErrorCode::kUnsupported,    "UNSUPPORTED",    "not supported",                                  ""},
    {ErrorCode::kNotFound,       "NOT_FOUND",      "no such file or directory",                      ""},
    {ErrorCode::kNoPermission,   "NO_PERMISSION",  "permission denied",                              "check the owner and mode"},
    {ErrorCode::kIo,             "IO",             "reading or writing failed",                      ""},
    {ErrorCode::kClosedPipe,     "CLOSED_PIPE",    "the reader of the output is gone",               ""},
    {ErrorCode::kFileChanged,    "FILE_CHANGED",   "the file changed while it was read",             "run again when nothing writes to it"},
    {ErrorCode::kNotADump,       "NOT_A_DUMP",     "holds no tensors that can be read",              "vernier inspect PATH"},
    {ErrorCode::kNoPair,         "NO_PAIR",        "no tensor to compare it with",                   "--match fuzzy, --rename OLD=NEW"},
    {ErrorCode::kShapeMismatch,  "SHAPE_MISMATCH", "the shapes differ",                              ""},
    {ErrorCode::kDtypeMismatch,  "DTYPE_MISMATCH", "the dtypes cannot be compared",                  ""},
    {ErrorCode::kBadArgument,    "BAD_ARGUMENT",   "invalid argument",                               "--help"},
    {ErrorCode::kTooLarge,       "TOO_LARGE",      "larger than allowed",                            ""},
    {ErrorCode::kCancelled,      "CANCELLED",      "cancelled",                                      ""},
    {ErrorCode::kInternal,       "INTERNAL",       "a defect in vernier",                            "vernier env, and report it"},
};
// clang-format on

constexpr bool InEnumOrder() {
  for (std::size_t i = 0; i < std::size(kErrorTable); ++i) {
    if (static_cast<std::size_t>(kErrorTable[i].code) != i) return false;
  }
  return std::size(kErrorTable) == static_cast<std::size_t>(ErrorCode::kInternal) + 1;
}
static_assert(InEnumOrder());

}  // namespace

const ErrorInfo& Info(ErrorCode code) { return kErrorTable[static_cast<std::size_t>(code)]; }

std::string Error::Message() const {
  const ErrorInfo& info = Info(code);
  std::string text = where.empty() ? std::string() : where + ": ";
  text += info.says;
  // The system's text for an errno often says what the table says.
  if (!detail.empty() && !EqualsIgnoringCase(detail, info.says)) text += ": " + detail;
  return Printable(text) + " [" + std::string(info.key) + "]";
}

Error In(std::string_view where, Error error) {
  error.where = error.where.empty() ? std::string(where) : std::string(where) + ": " + error.where;
  return error;
}

}  // namespace vernier
