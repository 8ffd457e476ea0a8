// One row of a report, and the columns that show it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "report/result_reports.h"
#include "vernier/cell.h"
#include "vernier/measure.h"

namespace vernier::torchair {

// What a report compares: whole tensors, the minima and maxima that shrinking leaves, or digests.
enum class Mode : std::uint8_t { kReal, kShrunk, kDigest };
std::string_view Name(Mode mode);

// One side of a row.
struct RowSide {
  std::string path;                      // with ,inputs,<i> behind that of a dump file
  std::string dtype, shape;              // "torch.float16", "[2, 3]"; empty: not known
  std::optional<double> max, min, mean;  // of the values in float32; none: there are none
  std::uint32_t crc32 = 0;
  std::optional<double> first, second;  // of a shrunk tensor: minimum and maximum
};

// The seed's numbers of a pair, which are of the stored values and not of their float32.
struct ExactNumbers {
  double distance = 0, max_abs = 0, max_relative = 0, share_below_1e3 = 0, share_below_5e3 = 0;

  static ExactNumbers OfFloats(const PairMeasures& m);  // nothing was lost in float32
  static ExactNumbers Of(const PairMeasures& m);        // with Relative::kOfGolden
};

struct Row {
  enum class State : std::uint8_t {
    kMeasured,
    kEmpty,  // both sides have no elements
    kCountsDiffer,
    kNotFinite,  // NaN or infinity on a side
    kFailed,     // could not be read
  };
  std::uint64_t token = 0, number = 0;
  RowSide target, golden;
  State state = State::kFailed;
  const PairMeasures* measures = nullptr;  // kMeasured
  ExactNumbers exact;                      // kMeasured
  std::string reason;                      // in the words of the reference, or what could not be read
  std::string api_name, note;
  std::string doubt;  // why the verdict may mean nothing
  Mode mode = Mode::kReal;

  double Cosine() const;  // to ten decimals. REQUIRES: measures
  bool Passes() const;
  Status status() const;
  // Red, yellow, green as documented; none where there is no result.
  RowColour Colour() const;
  double Severity() const;  // larger is worse
};

struct Column {
  std::string_view key;
  Good good;
  std::string_view help;
  Cell (*value)(const Row& row, TextArena& arena);
};
std::span<const Column> ColumnsOf(Mode mode);

}  // namespace vernier::torchair
