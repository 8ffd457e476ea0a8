// Spreadsheets. One is written sheet after sheet, rows as finished XML. Libraries format and deflate on one
// thread, which alone takes three seconds for 80 000 rows, and some forget that a disk can be full; here rows
// are rendered and deflated wherever the caller likes, and this only puts the pieces together. Memory does
// not grow with the rows, and the same rows give the same bytes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/atomic_file.h"
#include "format/table_file.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier {

// Some bytes of a member, deflated on their own: pieces can be made in any order and are put one behind the
// other.
struct DeflatedPiece {
  std::string bytes;
  std::uint64_t unpacked_bytes = 0;
  std::uint32_t crc32 = 0;  // of the unpacked bytes
};
Result<DeflatedPiece> DeflatePiece(std::string_view text);

// Which fill a cell has; the number of its style in the file. kHeading is bold instead.
enum class XlsxFill : std::uint8_t { kNone, kRed, kYellow, kPaleRed, kPaleYellow, kPaleGreen, kHeading };

// "A" for 0, "AA" for 26.
std::string XlsxColumnName(std::uint32_t column);

// One cell, appended to the XML of its row. `column` counts from 0, `row` from 1.
void AppendXlsxText(std::uint32_t row, std::uint32_t column, std::string_view text, XlsxFill fill,
                    std::string& xml);
void AppendXlsxNumber(std::uint32_t row, std::uint32_t column, double number, XlsxFill fill,
                      std::string& xml);
void AppendXlsxBool(std::uint32_t row, std::uint32_t column, bool value, XlsxFill fill, std::string& xml);
void AppendXlsxEmpty(std::uint32_t row, std::uint32_t column, XlsxFill fill,
                     std::string& xml);  // nothing unless filled

inline constexpr std::size_t kXlsxMostCharacters = 32'767;  // of a cell, counted in UTF-16

// All sheets one after another, each with its header.
Result<Done> ReadXlsx(const FileRef& file, const TableRowSink& sink);

// Not thread-safe. The file appears under its name when Finish() succeeds.
class XlsxStream {
 public:
  static Result<XlsxStream> Create(const std::filesystem::path& path);
  static Result<XlsxStream> Create(AtomicFile file);
  struct SheetOptions {
    std::string_view layout =
        {};  // what of the sheet's XML stands in front of its rows, such as column widths
    std::string_view behind_rows = {};  // and behind them, such as a filter
    bool first = false;                 // shown before those that were begun before it
  };
  Result<Done> BeginSheet(std::string_view name, const SheetOptions& options);
  Result<Done> BeginSheet(std::string_view name) { return BeginSheet(name, SheetOptions{}); }
  Result<Done> Append(const DeflatedPiece& piece);  // <row> elements
  Result<Done> Finish();

 private:
  struct Member {
    std::string name;
    std::uint64_t header_at = 0, stored_bytes = 0, unpacked_bytes = 0;
    std::uint32_t crc32 = 0;
  };
  Result<Done> BeginMember(std::string name);
  Result<Done> EndMember();
  Result<Done> EndSheet();
  Result<Done> AddMember(std::string name, std::string_view text);
  Result<Done> Put(std::string_view bytes);
  Result<Done> PutSizes(const Member& member);
  Result<Done> PutDirectory();

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  XlsxStream(AtomicFile file, std::FILE* out) : file_(std::move(file)), out_(out) {}

  AtomicFile file_;
  std::unique_ptr<std::FILE, CloseFile>
      out_;  // writes into file_'s temporary file, whose headers get their sizes late
  std::uint64_t position_ = 0;
  bool in_sheet_ = false;
  std::vector<Member> members_;
  struct Sheet {
    std::string name;
    std::size_t number = 0;  // of its member
  };
  std::vector<Sheet> sheets_;  // in the order in which they are shown
  std::string behind_rows_;    // of the sheet that is being written
};

}  // namespace vernier
