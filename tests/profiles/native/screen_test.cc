#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiles/native/native.h"
#include "profiles/verdict_screen.h"

namespace vernier::native {
namespace {

using testing::HasSubstr;
using testing::Not;

KeptRow Row(Status status, double severity, std::size_t position, const std::string& name) {
  const std::string why = "because of " + name;
  std::vector<Cell> cells(Columns().size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string_view key = Columns()[i].key;
    if (key == "name") cells[i] = name;
    if (key == "verdict") cells[i] = Name(status);
    if (key == "why") cells[i] = why;
    if (key == "dtype") cells[i] = "float16";
    if (key == "golden_dtype") cells[i] = "float32";
  }
  return {position, status, ColourOf(status), severity, KeptCells(cells)};
}

TEST(IsWorse, PutsFailuresFirstThenTheLargestError) {
  std::vector<KeptRow> rows;
  const std::pair<Status, double> kinds[] = {{Status::kPass, 9}, {Status::kUnmatched, 0},
                                             {Status::kFail, 1}, {Status::kError, 0},
                                             {Status::kFail, 5}, {Status::kFail, 5}};
  for (const auto& [status, severity] : kinds) rows.push_back(Row(status, severity, rows.size(), "row"));
  std::sort(rows.begin(), rows.end(), IsWorse);
  std::vector<std::size_t> positions;
  for (const KeptRow& row : rows) positions.push_back(row.position);
  EXPECT_THAT(positions, testing::ElementsAre(4, 5, 2, 3, 1, 0));
}

ScreenContent Screen() {
  ScreenContent screen;
  screen.rows.push_back(
      Row(Status::kFail, 1, 0, "a_name_that_is_much_too_long_for_a_line_of_a_terminal.weight"));
  screen.first_bad.push_back(
      Row(Status::kFail, 1, 0, "a_name_that_is_much_too_long_for_a_line_of_a_terminal.weight"));
  screen.num_rows = 3;
  RankOutcome& outcome = screen.outcome;
  outcome.num_target = outcome.num_golden = outcome.num_measured = outcome.num_matched = 3;
  outcome.num_matched_by = {{"exact", 3}};
  outcome.num_failed = 1;
  outcome.num_passed = 2;
  return screen;
}

TEST(NativeScreen, FitsTheTerminal) {
  const std::string text = ScreenText(Screen(), 80, false);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  const std::string table = text.substr(0, text.find("\n\n"));
  EXPECT_THAT(table, HasSubstr("…"));
  EXPECT_THAT(table, Not(HasSubstr("because")));  // the reason stands below, where it has room
  EXPECT_THAT(table, HasSubstr("2 more rows"));
  EXPECT_THAT(table, HasSubstr("float16 vs float32"));
  EXPECT_THAT(text,
              HasSubstr("compared 3 of 3 target / 3 golden tensors (exact 3); 0 only in target, 0 only in "
                        "golden; 1 failed\nfirst failure in file order: a_name"));
}

TEST(NativeScreen, ShowsReasonsInTheTableWhereThereIsRoom) {
  EXPECT_THAT(ScreenText(Screen(), 0, false), HasSubstr(" because of a_name"));
  EXPECT_THAT(ScreenText(Screen(), 200, true), HasSubstr("\x1b[31mfail\x1b[0m"));
}

TEST(NativeScreen, ColoursTheVerdictAsThatOfRecordings) {
  ScreenContent content = Screen();
  RankOutcome& outcome = content.outcome;
  outcome.verdict = RunVerdict::kDiverged;
  EXPECT_THAT(ScreenText(content, 80, true), HasSubstr("\n\x1b[1;31mDIVERGED\x1b[0m  compared"));
  EXPECT_THAT(ScreenText(content, 80, false), HasSubstr("\nDIVERGED  compared"));
  EXPECT_THAT(VerdictLines(outcome, true), testing::StartsWith("\x1b[1;31mDIVERGED\x1b[0m"));
  outcome.verdict = RunVerdict::kNoise;
  EXPECT_THAT(ScreenText(content, 80, true), HasSubstr("\x1b[1;32mWITHIN NOISE\x1b[0m"));
  outcome.num_only_golden = 1;
  EXPECT_THAT(ScreenText(content, 80, true), HasSubstr("\x1b[1;33mWITHIN NOISE\x1b[0m"))
      << "green only where everything was compared";
}

TEST(NativeScreen, SaysWhatToTryWhenNothingPaired) {
  const ScreenContent screen;
  EXPECT_THAT(ScreenText(screen, 80, false), HasSubstr("--match fuzzy"));
}

}  // namespace
}  // namespace vernier::native
