// Classic: the first failing row of a table and what to do about it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/msprobe/row.h"

namespace vernier::msprobe {

// Sees the rows of a finished table, in order.
class Advisor {
 public:
  explicit Advisor(const Rules& rules) : rules_(rules) {}
  void See(const ResultRow& row);

  bool found() const { return !name_.empty(); }
  const std::string& name() const { return name_; }
  std::size_t line() const { return line_; }
  // The three entries of the advisor's file, without their line ends.
  std::vector<std::string> Lines() const;

 private:
  std::string_view Advice() const;

  const Rules& rules_;
  std::string name_;
  std::size_t line_ = 0, num_rows_ = 0;
};

}  // namespace vernier::msprobe
