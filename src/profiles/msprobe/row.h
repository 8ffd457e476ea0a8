// One row of a result table of the msprobe profile, and what the two generations do differently.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "judge/rules.h"
#include "measure/sketch.h"
#include "profiles/msprobe/dump.h"
#include "vernier/judge.h"
#include "vernier/measure.h"
#include "vernier/report.h"

namespace vernier::msprobe {

enum class Generation { kClassic, kCurrent };  // of the msprobe command

enum class Mode : std::uint8_t { kReal, kStatistics, kMd5 };
std::string_view Name(Mode mode);  // "real data", …

// The switches by which the generations differ; everything else is in their rules and columns.
struct Profile {
  Generation generation;
  std::string_view name;  // "classic", "current"
  bool shape_is_part_of_the_key;
  bool renumber_backward;
  bool drop_undirected;
  bool drops_unit_axes;  // of real data, after reading
  bool shape_check_before_scalar_check;
  Relative relative;
  bool verdict_per_record;       // pass / warning / error instead of the older columns
  bool strict_folders;           // anything but rank folders in a step directory is an error
  bool strict_paths;             // links, permissions and odd characters are refused
  bool compares_dump_and_debug;  // of one rank, where it has both
};
const Profile& ProfileOf(Generation generation);
// Of rules/msprobe_*.json; see Rules::Make.
Result<Rules> RulesOf(Generation generation, std::optional<std::string_view> overrides = {},
                      std::string_view file_name = {});

// What the text in the column of the result means.
enum class Judged : std::uint8_t {
  kNone,
  kPass,
  kFail,
  kShapesDiffer,  // which fails as well, and is told differently
  kNoNumbers,
};

// Metrics of a real-data row in column order.
enum Metric : std::size_t {
  kCosine,
  kEucDist,
  kMaxAbsErr,
  kMaxRelativeErr,
  kOneThousandth,
  kFiveThousandths
};
inline constexpr std::size_t kNumRealMetrics = 6;
// Metrics of a statistics row: four differences, then four relative errors.
inline constexpr std::size_t kFirstRelativeErr = 4, kNormRelativeErr = 7;

// Views live as long as the dumps and the arena of the batch.
struct ResultRow {
  std::string_view npu_name, bench_name = "N/A", api;  // api: the NPU record's name
  Leaf npu, bench;
  PortState state = PortState::kInput;
  bool matched = false;
  bool grad_consistent = false;
  bool first_of_record = false;
  bool bad_record = false;
  std::uint32_t record = 0;
  std::array<Cell, 8> metrics;
  std::string_view result;
  Judged judged = Judged::kNone;
  std::string message;
  std::string_view stack = "N/A";
  std::string_view data_name;
  RowColour colour = RowColour::kNone;
  const PairMeasures* measures = nullptr;  // of the files, where they could be measured
  std::optional<SketchEstimate> estimate;  // from sketches: not under the name msprobe, nor of real data
  std::string_view sketch_problem;         // why there is none where there should be one

  void SetResult(std::string_view text, Judged meaning) {
    result = text;
    judged = meaning;
  }
  bool fails() const { return judged == Judged::kFail || judged == Judged::kShapesDiffer; }
  Status status() const;
};

// The number in a cell: a number, or a text that Python reads as one. "Nan" is a number that is not one.
std::optional<double> NumericOf(const Cell& value);
// The number in a cell that shows one, also as percent: "12.5%" is 0.125.
std::optional<double> FractionOf(const Cell& value);

}  // namespace vernier::msprobe
