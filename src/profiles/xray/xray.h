// The comparison of two HDF5 recordings: rows, columns, what the screen shows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/xray/key_match.h"
#include "profiles/xray/recording.h"
#include "report/result_reports.h"
#include "vernier/compare.h"
#include "vernier/judge.h"
#include "vernier/measure.h"

namespace vernier::xray {

// What is reported of a pair; t is the target's value, g the golden's, an error is |t - g|.
struct PairErrors {
  double cosine = 1, rmse = 0, percent_close = 100;
  double max_error = 0, min_error = 0, mean_relative = 0;
  std::uint64_t num_above = 0;
  std::uint64_t num_special_mismatches = 0;
  std::optional<WorstElement> worst;
};

enum class RowStatus { kGood, kFail, kUnmatched, kShape, kError };

// One line. What it points to lives while its cells are made.
struct Row {
  std::uint64_t index = 0;
  RowStatus status = RowStatus::kGood;
  const Item* target_item = nullptr;   // null: only in golden
  const Item* golden_item = nullptr;   // null: only in target
  const TensorInfo* target = nullptr;  // of the items
  const TensorInfo* golden = nullptr;
  std::optional<KeyRule> rule;         // set: both sides are
  const PairErrors* errors = nullptr;  // null: not measured
  std::string message;                 // why not
};

struct Column {
  std::string_view key;
  Good good;
  std::string_view help;
  Cell (*value)(const Row& row, TextArena& arena);
};
std::span<const Column> Columns();
std::string_view Name(RowStatus status);  // as in the column Status; "" for kGood
Status StatusOf(RowStatus status);
// The key; "golden key / target key" where they differ.
std::string NameOf(const Row& row);
// A number as files show it: up to nine digits that count, 1 and not 1.0.
Cell NumberCell(double value);

struct Limits {
  double max_error = 0.01;  // above: Fail
  double above = 0;         // of the column GtNum
};

// One line of the screen's table.
struct ScreenRow {
  RowStatus status = RowStatus::kGood;
  std::vector<std::string> cells;
};
std::vector<std::string> ScreenCells(const Row& row);
// The table of the first columns, and how many rows it leaves out.
std::string ScreenTable(std::span<const ScreenRow> rows);

struct Counts {
  std::uint64_t num_rows = 0;
  std::uint64_t by_status[5] = {};  // in the order of RowStatus
  std::uint64_t num_same = 0;       // pairs without any difference
  std::string first_failing;        // in the golden's order
};

// Rows go to `reports` and to `on_row`, in the golden's order, what has no partner last.
struct Comparison {
  const Recording& target;
  const Recording& golden;
  const KeyPairing& pairing;
  const CompareRequest& request;
  const CompareHooks& hooks;
  Limits limits;
};
Result<Counts> CompareKeys(const Comparison& comparison, ResultReports& reports,
                           const std::function<void(const Row& row)>& on_row);

}  // namespace vernier::xray
