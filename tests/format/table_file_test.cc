#include "format/table_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "format/xlsx.h"
#include "format/xml_cursor.h"
#include "temporary_folder.h"

namespace vernier {
namespace {

using Kind = TableCell::Kind;

std::vector<std::vector<TableCell>> Rows(const std::filesystem::path& path) {
  std::vector<std::vector<TableCell>> rows;
  const Result<Done> done = ReadTable(path, [&](std::span<const TableCell> cells) {
    rows.emplace_back(cells.begin(), cells.end());
    return true;
  });
  EXPECT_TRUE(done) << done.error().Message();
  return rows;
}

TEST(ReadTable, ReadsCsvWithQuotesAndLineEnds) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.csv";
  std::ofstream(path, std::ios::binary) << "a,\"b \"\"x\"\"\nc\",\r\n1.5, inf,True\n\n\"3\",,last";
  const auto rows = Rows(path);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0][1].text, "b \"x\"\nc");
  EXPECT_EQ(rows[0][2].kind, Kind::kEmpty);
  EXPECT_EQ(rows[1][0].kind, Kind::kNumber);
  EXPECT_EQ(rows[1][1].text, " inf");
  EXPECT_EQ(rows[1][2].kind, Kind::kBool);
  EXPECT_EQ(rows[2][0].kind, Kind::kText);
  EXPECT_EQ(rows[2][2].text, "last");
}

TEST(ReadTable, ReadsBackWhatTheStreamWrote) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.xlsx";
  auto stream = XlsxStream::Create(path);
  ASSERT_TRUE(stream);
  for (const char* sheet : {"one & two", "three"}) {
    ASSERT_TRUE(stream->BeginSheet(sheet));
    std::string xml = "<row r=\"1\">";
    AppendXlsxText(1, 0, " <a> & \"b\"\n\x01", XlsxFill::kRed, xml);
    AppendXlsxNumber(1, 27, 0.1, XlsxFill::kNone, xml);
    AppendXlsxBool(1, 28, false, XlsxFill::kYellow, xml);
    AppendXlsxEmpty(1, 29, XlsxFill::kNone, xml);
    const auto piece = DeflatePiece(xml + "</row>");
    ASSERT_TRUE(piece);
    ASSERT_TRUE(stream->Append(*piece));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(stream->Finish());
  const auto rows = Rows(path);
  ASSERT_EQ(rows.size(), 2u);
  ASSERT_EQ(rows[0].size(), 29u);
  EXPECT_EQ(rows[0][0].text, " <a> & \"b\"\n\x01");
  EXPECT_EQ(rows[0][1].kind, Kind::kEmpty);
  EXPECT_EQ(rows[0][27].text, "0.1");
  EXPECT_EQ(rows[0][28].text, "False");
}

TEST(ReadTable, RefusesWhatOnlyClaimsToBeXlsx) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "t.xlsx") << "a,b\n";
  EXPECT_FALSE(ReadTable(folder.path() / "t.xlsx", [](auto) { return true; }));
  EXPECT_FALSE(ReadTable(folder.path() / "absent.csv", [](auto) { return true; }));
}

TEST(XmlCursor, SurvivesMalformedText) {
  for (const char* text :
       {"<", "<a", "<a b=\"", "<!--", "<![CDATA[x", "<?", "</", "<a b=c>", "&#x110000;<a/>"}) {
    XmlCursor cursor(text);
    for (int i = 0; i < 10 && cursor.Next() != XmlCursor::Event::kDone; ++i) cursor.Attribute("b");
    EXPECT_EQ(cursor.Next(), XmlCursor::Event::kDone) << text;
  }
}

}  // namespace
}  // namespace vernier
