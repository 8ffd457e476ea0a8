#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/compare.h"
#include "cli/screen.h"

namespace vernier {
namespace {

using testing::HasSubstr;
using testing::Not;

KeptRow Row(Status status, double severity, std::size_t position, const std::string& name) {
  KeptRow row{position, status, severity, std::vector<Cell>(CompareColumns().size())};
  for (std::size_t i = 0; i < row.cells.size(); ++i) {
    const std::string_view key = CompareColumns()[i].key;
    if (key == "name") row.cells[i] = name;
    if (key == "verdict") row.cells[i] = std::string(Name(status));
    if (key == "why") row.cells[i] = "because of " + name;
    if (key == "dtype") row.cells[i] = "float16";
    if (key == "golden_dtype") row.cells[i] = "float32";
  }
  return row;
}

TEST(IsWorse, PutsFailuresFirstThenTheLargestError) {
  std::vector<KeptRow> rows = {Row(Status::kPass, 9, 0, "pass"), Row(Status::kUnmatched, 0, 1, "unmatched"),
                               Row(Status::kFail, 1, 2, "mild"), Row(Status::kError, 0, 3, "error"),
                               Row(Status::kFail, 5, 4, "bad"),  Row(Status::kFail, 5, 5, "bad too")};
  std::sort(rows.begin(), rows.end(), IsWorse);
  std::vector<std::size_t> positions;
  for (const KeptRow& row : rows) positions.push_back(row.position);
  EXPECT_THAT(positions, testing::ElementsAre(4, 5, 2, 3, 1, 0));
}

CompareScreen Screen() {
  CompareScreen screen;
  screen.rows = {Row(Status::kFail, 1, 0, "a_name_that_is_much_too_long_for_a_line_of_a_terminal.weight")};
  screen.first_bad = screen.rows;
  screen.num_rows = 3;
  screen.summary.num_target = screen.summary.num_golden = screen.summary.num_compared = 3;
  screen.summary.num_matched[0] = 3;
  screen.summary.num_failed = 1;
  screen.summary.num_passed = 2;
  screen.written = {"report.csv"};
  return screen;
}

TEST(CompareScreen, FitsTheTerminal) {
  const std::string text = CompareScreenText(Screen(), 80, false);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  const std::string table = text.substr(0, text.find("\n\n"));
  EXPECT_THAT(table, HasSubstr("…"));
  EXPECT_THAT(table, Not(HasSubstr("because")));  // the reason stands below, where it has room
  EXPECT_THAT(table, HasSubstr("2 more rows"));
  EXPECT_THAT(table, HasSubstr("float16 vs float32"));
  EXPECT_THAT(text,
              HasSubstr("compared 3 of 3 target / 3 golden tensors (exact 3); 0 only in target, 0 only in "
                        "golden; 1 failed\nfirst failure in file order: a_name"));
  EXPECT_THAT(text, HasSubstr("wrote report.csv\n"));
}

TEST(CompareScreen, ShowsReasonsInTheTableWhereThereIsRoom) {
  EXPECT_THAT(CompareScreenText(Screen(), 0, false), HasSubstr(" because of a_name"));
  EXPECT_THAT(CompareScreenText(Screen(), 200, true), HasSubstr("\x1b[31mfail\x1b[0m"));
}

TEST(CompareScreen, SaysWhatToTryWhenNothingPaired) {
  CompareScreen screen;
  EXPECT_THAT(CompareScreenText(screen, 80, false), HasSubstr("--match fuzzy"));
}

TEST(SizeText, UsesTheLargestUnitThatFits) {
  EXPECT_EQ(SizeText(0), "0 bytes");
  EXPECT_EQ(SizeText(1), "1 byte");
  EXPECT_EQ(SizeText(1023), "1023 bytes");
  EXPECT_EQ(SizeText(1536), "1.5 KiB");
  EXPECT_EQ(SizeText(std::uint64_t{200} << 20), "200 MiB");
  EXPECT_EQ(SizeText(~std::uint64_t{0}), "16384 PiB");
}

}  // namespace
}  // namespace vernier
