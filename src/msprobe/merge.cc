#include "msprobe/merge.h"

namespace vernier::msprobe {
Result<Done> MergeResults(const std::filesystem::path&, const std::filesystem::path&,
                          const std::filesystem::path&, const LogSink& sink) {
  Log log(sink);
  return RunFailure(log, "not yet");
}
}  // namespace vernier::msprobe
