#include "profiles/output_files.h"

#include <ctime>
#include <filesystem>
#include <system_error>

namespace vernier {

std::string TimestampNow() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[16];
  std::strftime(text, sizeof text, "%Y%m%d%H%M%S", &local);
  return text;
}

bool IsStandardOutput(const std::string& output) { return output == "-" || output == "/dev/stdout"; }

bool IsFolderName(const std::string& output, const std::string& format) {
  std::error_code ignored;
  if (IsStandardOutput(output)) return false;
  if (output.ends_with('/') || std::filesystem::is_directory(output, ignored)) return true;
  return format.empty() && std::filesystem::path(output).extension().empty();
}

}  // namespace vernier
