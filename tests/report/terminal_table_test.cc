#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "vernier/report.h"

namespace vernier {
namespace {

using Cut = TableColumn::Cut;

RowBlock Rows(const std::vector<std::vector<Cell>>& rows, RowColour colour = RowColour::kNone) {
  RowBlock block(rows.front().size());
  for (const std::vector<Cell>& row : rows) {
    block.cells.insert(block.cells.end(), row.begin(), row.end());
    block.colours.push_back(colour);
  }
  return block;
}

TEST(RenderTable, AlignsColumnsAndRoundsNumbers) {
  const std::vector<TableColumn> columns = {{"name"}, {"max abs"}, {"n"}};
  const RowBlock rows = Rows({{"a", 0.123456, std::uint64_t{5}}, {"longer", 1e-30, std::uint64_t{12345}}});
  EXPECT_EQ(RenderTable(columns, rows, {}),
            "name    max abs      n\n"
            "a        0.1235      5\n"
            "longer    1e-30  12345\n");
}

TEST(RenderTable, NeverRoundsUpToAWholeOne) {
  const std::vector<TableColumn> columns = {{"cosine"}, {"%"}};
  const RowBlock rows = Rows({{1.0, 100.0}, {0.99999, 99.9999}, {0.999999999, 99.99999999}});
  EXPECT_EQ(RenderTable(columns, rows, {}),
            "  cosine        %\n"
            "       1      100\n"
            "0.999990  99.9999\n"
            "0.999999  99.9999\n");
}

TEST(RenderTable, CutsNamesInTheMiddleAndSentencesAtTheEnd) {
  const std::vector<TableColumn> columns = {{"name", Cut::kMiddle}, {"x"}, {"why", Cut::kEnd}};
  const RowBlock rows = Rows({{"model.layers.12.attention.weight", 1.0, "three elements differ by much"}});
  TableOptions options;
  options.width = 40;
  EXPECT_EQ(RenderTable(columns, rows, options),
            "name               x  why\n"
            "model…tion.weight  1  three elements di…\n");
}

TEST(RenderTable, DropsWhatAllNamesBeginWithBeforeItCutsThem) {
  const std::vector<TableColumn> columns = {{"name", Cut::kMiddle}, {"x"}};
  const RowBlock rows = Rows({{"model.layers.10.weight", 1.0}, {"model.layers.1.weight", 2.0}});
  TableOptions options;
  options.width = 20;
  EXPECT_EQ(RenderTable(columns, rows, options),
            "name        x\n"
            "…10.weight  1\n"
            "…1.weight   2\n");
  options.width = 30;
  EXPECT_THAT(RenderTable(columns, rows, options), testing::HasSubstr("model.layers.10.weight"));
}

TEST(RenderTable, CountsColumnsOfTheScreenNotBytes) {
  const std::vector<TableColumn> columns = {{"name"}, {"x"}};
  EXPECT_EQ(RenderTable(columns, Rows({{"重量", 1.0}, {"größe", 2.0}}), {}),
            "name   x\n"
            "重量   1\n"
            "größe  2\n");
}

TEST(RenderTable, NeverCutsInsideACharacter) {
  const std::vector<TableColumn> columns = {{"name", Cut::kMiddle}};
  TableOptions options;
  for (options.width = 12; options.width < 40; ++options.width) {
    const std::string table = RenderTable(columns, Rows({{"重量重量重量重量重量重量重量重量"}}), options);
    EXPECT_EQ(table.find('\\'), std::string::npos);
    std::string rest = table.substr(table.find('\n') + 1);
    for (const std::string part : {"重", "量", "…", "\n"}) {
      for (std::size_t at; (at = rest.find(part)) != std::string::npos;) rest.erase(at, part.size());
    }
    EXPECT_EQ(rest, "");
  }
}

TEST(RenderFrame, FramesAlignsAndShortens) {
  const std::vector<FrameColumn> columns = {
      {"Module", 0, 12, false, false}, {"Max"}, {"n", 4, 0, true, false}};
  const std::vector<std::vector<std::string>> lines = {{"module.first.weight", "1E-06", "5"},
                                                       {"b\n", "", "12"}};
  EXPECT_EQ(RenderFrame(columns, lines),
            "+--------------+-------+------+\n"
            "| Module       |   Max |    n |\n"
            "+--------------+-------+------+\n"
            "| module.fi... | 1E-06 | 5    |\n"
            "| b\\n          |       | 12   |\n"
            "+--------------+-------+------+\n");
}

TEST(RenderTable, KeepsOneLineForEachRow) {
  EXPECT_EQ(RenderTable(std::vector<TableColumn>{{"n"}}, Rows({{"a\nb\x1b[31m"}}), {}),
            "n\na\\nb\\x1b[31m\n");
}

TEST(RenderTable, ColoursOnlyWhenAsked) {
  const std::vector<TableColumn> columns = {{"n"}, {"verdict"}};
  const RowBlock rows = Rows({{"a", "fail"}}, RowColour::kRed);
  TableOptions options;
  options.colour_column = 1;
  EXPECT_EQ(RenderTable(columns, rows, options), "n  verdict\na  fail\n");
  options.colour = true;
  EXPECT_EQ(RenderTable(columns, rows, options),
            "\x1b[1mn\x1b[0m  \x1b[1mverdict\x1b[0m\na  \x1b[31mfail\x1b[0m\n");
}

}  // namespace
}  // namespace vernier
