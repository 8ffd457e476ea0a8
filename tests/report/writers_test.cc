#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "core/mapped_file.h"
#include "format/zip.h"
#include "temporary_folder.h"
#include "vernier/report.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

using Row = std::vector<Cell>;
constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();

class WritersTest : public testing::Test {
 protected:
  fs::path Written(const std::string& name, const std::vector<std::string>& columns,
                   const std::vector<Row>& rows, RowColour colour = RowColour::kNone,
                   const ReportOptions& options = {}) {
    const fs::path path = folder_.path() / name;
    auto writer = ReportWriter::Create(path, *FormatOf(path), columns, options);
    EXPECT_TRUE(writer) << writer.error().Message();
    std::uint64_t first_row = 0;
    for (const Row& row : rows) EXPECT_TRUE(Write(**writer, first_row++, row, colour));
    EXPECT_FALSE(fs::exists(path)) << "there before it is whole";
    const Result<Done> done = (*writer)->Finish();
    EXPECT_TRUE(done) << done.error().Message();
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1) << "something is left behind";
    return path;
  }
  static Result<Done> Write(ReportWriter& writer, std::uint64_t number, const Row& row,
                            RowColour colour = RowColour::kNone) {
    RowBlock block(row.size());
    block.cells = row;
    block.colours.push_back(colour);
    VN_ASSIGN_OR_RETURN(const Rendered rendered, writer.Render(number, block));
    return writer.Append(rendered);
  }
  static std::string TextOf(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static std::string MemberOf(const fs::path& path, const std::string& name) {
    const Result<FileRef> file = MappedFile::Open(path);
    const auto members = ListZip(*file);
    EXPECT_TRUE(members) << members.error().Message();
    for (const ZipMember& member : *members) {
      if (member.name != name) continue;
      const auto bytes = UnzipMember(*file, member);
      EXPECT_TRUE(bytes);
      return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
    }
    return "";
  }
  TemporaryFolder folder_;
};

TEST_F(WritersTest, CsvFormatsEveryKindOfCell) {
  const Row row = {Cell(), true, std::int64_t{-3}, ~std::uint64_t{0}, 0.1, 1.0, kInf, -kInf, kNan, "text"};
  EXPECT_EQ(TextOf(Written("a.csv", {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, {row})),
            "a,b,c,d,e,f,g,h,i,j\n,True,-3,18446744073709551615,0.1,1.0,inf,-inf,nan,text\n");
}

TEST_F(WritersTest, CsvQuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(TextOf(Written("a.csv", {"x,y", "z"}, {{"a \"b\"", "two\nlines"}, {"plain ' text", "c,d"}})),
            "\"x,y\",z\n\"a \"\"b\"\"\",\"two\nlines\"\nplain ' text,\"c,d\"\n");
}

TEST_F(WritersTest, CsvNeverHoldsAFormula) {
  EXPECT_EQ(TextOf(Written("a.csv", {"n"}, {{"=cmd|' /C calc'!A0"}, {"+1"}, {"-1e5"}, {"-x"}, {"@sum"}})),
            "n\n'=cmd|' /C calc'!A0\n+1\n-1e5\n'-x\n'@sum\n");
}

TEST_F(WritersTest, EveryTextFormatIsUtf8) {
  EXPECT_EQ(TextOf(Written("a.csv", {"n"}, {{"é\xff"}})), "n\né\\xff\n");
  fs::remove(folder_.path() / "a.csv");
  EXPECT_EQ(TextOf(Written("a.jsonl", {"n"}, {{"é\xff"}})), "{\"n\": \"é\\\\xff\"}\n");
}

TEST_F(WritersTest, JsonlHasOneObjectForEachRow) {
  const Row row = {Cell(), true, std::uint64_t{7}, 2.0, kNan, "q\"\\\n\x1b"};
  EXPECT_EQ(TextOf(Written("a.jsonl", {"a", "b", "c", "d", "e", "f\""}, {row, row})),
            "{\"a\": null, \"b\": true, \"c\": 7, \"d\": 2.0, \"e\": \"nan\", \"f\\\"\": "
            "\"q\\\"\\\\\\n\\u001b\"}\n"
            "{\"a\": null, \"b\": true, \"c\": 7, \"d\": 2.0, \"e\": \"nan\", \"f\\\"\": "
            "\"q\\\"\\\\\\n\\u001b\"}\n");
}

TEST_F(WritersTest, JsonIsOneList) {
  EXPECT_EQ(TextOf(Written("a.json", {"a"}, {{1.5}, {"x"}})), "[\n{\"a\": 1.5},\n{\"a\": \"x\"}\n]\n");
}

TEST_F(WritersTest, ReportsWithoutRowsAreWhole) {
  EXPECT_EQ(TextOf(Written("a.json", {"a"}, {})), "[]\n");
  fs::remove(folder_.path() / "a.json");
  EXPECT_EQ(TextOf(Written("a.csv", {"a"}, {})), "a\n");
}

TEST_F(WritersTest, XlsxHoldsTypedCellsAndNoFormula) {
  const fs::path path =
      Written("a.xlsx", {"name", "x"}, {{"=1+1", 0.5}, {"n", kInf}, {"b", true}, {"big", ~std::uint64_t{0}}});
  const std::string sheet = MemberOf(path, "xl/worksheets/sheet1.xml");
  EXPECT_THAT(sheet, Not(HasSubstr("<f>")));
  EXPECT_THAT(sheet, HasSubstr("<t>=1+1</t>"));
  EXPECT_THAT(sheet, HasSubstr("<v>0.5</v>"));
  EXPECT_THAT(sheet, HasSubstr("<t>inf</t>"));
  EXPECT_THAT(sheet, HasSubstr("t=\"b\"><v>1</v>"));
  EXPECT_THAT(sheet, HasSubstr("<t>18446744073709551615</t>"));
  EXPECT_THAT(MemberOf(path, "xl/workbook.xml"), HasSubstr("name=\"Sheet1\""));
  EXPECT_THAT(sheet, HasSubstr("state=\"frozen\""));
}

TEST_F(WritersTest, XlsxIsTheSameBytesForTheSameRows) {
  const std::vector<Row> rows(20000, Row{"some text", 0.125});  // more than one piece
  const std::string first = TextOf(Written("a.xlsx", {"n", "x"}, rows));
  fs::remove(folder_.path() / "a.xlsx");
  EXPECT_TRUE(TextOf(Written("a.xlsx", {"n", "x"}, rows)) == first);
}

TEST_F(WritersTest, XlsxColoursRows) {
  EXPECT_THAT(MemberOf(Written("a.xlsx", {"n"}, {{"x"}}, RowColour::kRed), "xl/styles.xml"),
              HasSubstr("FFFFC7CE"));
}

TEST_F(WritersTest, XlsxContinuesOnTheNextSheet) {
  ReportOptions options;
  options.style.max_rows_of_a_sheet = 2;
  options.style.sheets = "part_";
  options.style.first_sheet_number = 0;
  options.num_rows = 3;
  const fs::path path = Written("a.xlsx", {"n"}, {{"r0"}, {"r1"}, {"r2"}}, RowColour::kNone, options);
  EXPECT_THAT(MemberOf(path, "xl/worksheets/sheet1.xml"), HasSubstr("r1"));
  EXPECT_THAT(MemberOf(path, "xl/worksheets/sheet2.xml"), HasSubstr("r2"));
  EXPECT_THAT(MemberOf(path, "xl/worksheets/sheet2.xml"), HasSubstr("<t>n</t>"));
  EXPECT_THAT(MemberOf(path, "xl/workbook.xml"), HasSubstr("name=\"part_0\""));
  EXPECT_THAT(MemberOf(path, "xl/workbook.xml"), HasSubstr("name=\"part_1\""));
}

TEST_F(WritersTest, XlsxCutsATextThatNoCellCanHold) {
  const std::string fits(32767, 'x');
  std::string wide;
  for (int i = 0; i < 20000; ++i) wide += "🙂";
  const std::string longer = fits + "y";
  const fs::path path = Written("a.xlsx", {"n"}, {{fits}, {longer}, {wide}});
  const std::string sheet = MemberOf(path, "xl/worksheets/sheet1.xml");
  // No matcher, which would print it all.
  for (const std::string& text : {fits, fits.substr(0, 32761) + " [cut]", std::string("🙂 [cut]")}) {
    EXPECT_NE(sheet.find(text + "</t>"), std::string::npos);
  }
}

TEST_F(WritersTest, CsvContinuesInTheNextFile) {
  ReportOptions options;
  options.style.max_rows_of_a_csv = 2;
  options.num_rows = 3;
  const fs::path path = folder_.path() / "a.csv";
  auto writer = ReportWriter::Create(path, ReportFormat::kCsv, {"n"}, options);
  ASSERT_TRUE(writer);
  for (const std::uint64_t row : {0, 1, 2}) ASSERT_TRUE(Write(**writer, row, {row}));
  ASSERT_TRUE((*writer)->Finish());
  ASSERT_EQ((*writer)->paths().size(), 2u);
  EXPECT_EQ(TextOf(folder_.path() / "a_part_1.csv"), "n\n0\n1\n");
  EXPECT_EQ(TextOf(folder_.path() / "a_part_2.csv"), "n\n2\n");
}

TEST_F(WritersTest, ShowsWhatAFamilyFixes) {
  ReportOptions options;
  options.style.before_infinity = " ";
  options.style.marks_formulas = false;
  const Row row = {Cell::Shown(0.125, "12.5%"), Cell::Digits(1e30, "1000000000000000000000000000000"), kInf,
                   "=x", Cell::Json("{\"a\": 1}")};
  EXPECT_EQ(TextOf(Written("a.csv", {"a", "b", "c", "d", "e"}, {row}, RowColour::kNone, options)),
            "a,b,c,d,e\n12.5%,1000000000000000000000000000000, inf,=x,\n");
  fs::remove(folder_.path() / "a.csv");
  const Row without = {Cell(), Cell(), Cell(), Cell(), Cell::Json("")};
  EXPECT_EQ(TextOf(Written("a.jsonl", {"a", "b", "c", "d", "e"}, {row, without})),
            "{\"a\": \"12.5%\", \"b\": 1000000000000000000000000000000, \"c\": \"inf\", \"d\": \"=x\", "
            "\"e\": {\"a\": 1}}\n{\"a\": null, \"b\": null, \"c\": null, \"d\": null}\n");
}

TEST_F(WritersTest, AnUnfinishedReportLeavesNothing) {
  for (const char* name : {"a.csv", "a.json", "a.jsonl", "a.xlsx"}) {
    auto writer = ReportWriter::Create(folder_.path() / name, *FormatOf(name), {"a"});
    ASSERT_TRUE(writer);
    ASSERT_TRUE(Write(**writer, 0, Row{1.0}));
    writer->reset();
    EXPECT_TRUE(fs::is_empty(folder_.path())) << name;
  }
}

TEST_F(WritersTest, AFullDiskIsReported) {
  auto writer = ReportWriter::Create("/dev/full", ReportFormat::kCsv, {"a"});
  ASSERT_TRUE(writer);
  const Result<Done> done = (*writer)->Finish();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().Message(), HasSubstr("/dev/full"));
  EXPECT_FALSE(ReportWriter::Create("/dev/full", ReportFormat::kXlsx, {"a"}));
}

TEST(Format, IsToldByTheEnding) {
  EXPECT_EQ(*FormatOf("a.b/c.jsonl"), ReportFormat::kJsonl);
  const Result<ReportFormat> unknown = FormatOf("report.txt");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().Message(), HasSubstr("report.txt"));
  EXPECT_THAT(unknown.error().Message(), HasSubstr(".csv, .xlsx, .json, .jsonl"));
  EXPECT_FALSE(FormatOf("csv"));
  EXPECT_EQ(*ParseFormat("xlsx"), ReportFormat::kXlsx);
  EXPECT_FALSE(ParseFormat("XML"));
}

TEST(SpreadsheetSafe, LeavesNumbersAndOrdinaryTextAlone) {
  for (const char* text : {"", "a=b", "-1", "+1.5e-3", "-inf", "nan", "'x", " x", "  -1"})
    EXPECT_EQ(SpreadsheetSafe(text), text);
  for (const char* text : {"=1", "-", "+a", "@x", "\tx", "\rx", "-1+1", " =x", "\t=x", "\u00a0=x", "\u202e=x",
                           "\u2066=x", "\u200b @x", "\uff1dx", "\n+a"}) {
    EXPECT_EQ(SpreadsheetSafe(text), "'" + std::string(text));
  }
}

}  // namespace
}  // namespace vernier
