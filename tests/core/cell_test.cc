#include "vernier/cell.h"

#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>

namespace vernier {
namespace {

TEST(Cell, ShowsWhatPythonWouldPrint) {
  EXPECT_EQ(CellText(Cell()), "");
  EXPECT_EQ(CellText(true), "True");
  EXPECT_EQ(CellText(std::int64_t{-3}), "-3");
  EXPECT_EQ(CellText(~std::uint64_t{0}), "18446744073709551615");
  EXPECT_EQ(CellText(1.0), "1.0");
  EXPECT_EQ(CellText(-HUGE_VAL), "-inf");
  EXPECT_EQ(CellText("text"), "text");
}

TEST(Cell, KeepsTheNumberBesideItsText) {
  const Cell percent = Cell::Shown(0.125, "12.5%");
  EXPECT_EQ(CellText(percent), "12.5%");
  EXPECT_EQ(percent.number, 0.125);
  EXPECT_FALSE(percent.is_number()) << "a spreadsheet gets the text";
  const Cell digits = Cell::Digits(1e30, "1000000000000000000000000000000");
  EXPECT_EQ(CellText(digits), "1000000000000000000000000000000");
  EXPECT_TRUE(digits.is_number());
}

TEST(Cell, IsNotMadeFromWhatWouldDangleOrFromPointers) {
  static_assert(!std::is_constructible_v<Cell, std::string>);
  static_assert(!std::is_constructible_v<Cell, const std::byte*>);
  static_assert(std::is_constructible_v<Cell, const std::string&>);
}

TEST(KeptCells, OutliveTheTextsTheyWereMadeFrom) {
  KeptCells kept;
  {
    const std::string name = "a name that is longer than what a string keeps inside itself";
    const Cell cells[] = {name, 2.5, "", true};
    kept = KeptCells(cells);
  }
  KeptCells moved = std::move(kept);
  ASSERT_EQ(moved.cells().size(), 4u);
  EXPECT_EQ(moved.cells()[0].text, "a name that is longer than what a string keeps inside itself");
  EXPECT_EQ(moved.cells()[1].number, 2.5);
  EXPECT_EQ(moved.cells()[2].text, "");
  EXPECT_EQ(moved.cells()[3].integer, 1);
}

TEST(TextArena, KeepsTextsOfAnyLengthAlsoWhenItIsMoved) {
  TextArena arena(16);
  const std::string_view a = arena.Keep("0123456789"), b = arena.Keep(std::string(100, 'x')),
                         c = arena.Keep("y");
  const TextArena moved = std::move(arena);
  EXPECT_EQ(a, "0123456789");
  EXPECT_EQ(b, std::string(100, 'x'));
  EXPECT_EQ(c, "y");
}

}  // namespace
}  // namespace vernier
