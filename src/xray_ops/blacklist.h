// Operators that cannot be judged, by patterns.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/result.h"

namespace vernier::xray_ops {

class Blacklist {
 public:
  // rules/xray_blacklist.txt, as it was when this was built.
  static Blacklist Shipped();
  // Adds the patterns of a file: one a line, blank lines and what follows a # left out.
  Result<Done> AddFile(const std::filesystem::path& path);
  void AddLines(std::string_view text);

  // `op` is namespace.name.overload. A pattern without a dot is held against the name, another one against
  // name.overload and against all of it.
  bool Has(std::string_view op) const;
  const std::vector<std::string>& patterns() const { return patterns_; }

 private:
  std::vector<std::string> patterns_;
};

}  // namespace vernier::xray_ops
