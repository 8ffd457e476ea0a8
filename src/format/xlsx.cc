#include "format/xlsx.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>

#include <fmt/format.h>
#include <zlib.h>

#include "core/json_writer.h"
#include "format/little_endian.h"

namespace vernier {
namespace {

// Sheets are dull: more effort costs five times the time for a tenth of the size.
constexpr int kDeflateLevel = 1;
constexpr std::string_view kXmlHead = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n";
constexpr std::string_view kMainNamespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
constexpr std::string_view kRelationships =
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
constexpr std::string_view kPackage = "http://schemas.openxmlformats.org/package/2006";

constexpr std::string_view kFinalEmptyBlock("\x03\x00", 2);
// UTF-8 names, deflated, 1 January 1980: the same table gives the same bytes.
constexpr std::string_view kMemberFlags("\x00\x08\x08\x00\x00\x00\x21\x00", 8);
constexpr std::uint64_t kMaxZipBytes = 0xFFFFFFFF;

// By XlsxFill; fills 0 and 1 are reserved by the format, so that of style i is i + 1.
constexpr std::string_view kFillColours[] = {"", "FFFF0000", "FFFFFF00", "FFFFC7CE", "FFFFEB9C", "FFC6EFCE"};
constexpr std::size_t kNumFills = std::size(kFillColours) - 1;
static_assert(static_cast<std::size_t>(XlsxFill::kHeading) == kNumFills + 1);

std::string StylesXml() {
  std::string fills, styles = "<xf xfId=\"0\"/>";
  for (std::size_t i = 1; i <= kNumFills; ++i) {
    fills +=
        fmt::format("<fill><patternFill patternType=\"solid\"><fgColor rgb=\"{}\"/></patternFill></fill>",
                    kFillColours[i]);
    styles += fmt::format("<xf xfId=\"0\" fillId=\"{}\" applyFill=\"1\"/>", i + 1);
  }
  styles += "<xf xfId=\"0\" fontId=\"1\" applyFont=\"1\"/>";
  constexpr std::string_view kFont = "<sz val=\"11\"/><name val=\"Calibri\"/></font>";
  return fmt::format(
      "<fonts count=\"2\"><font>{0}<font><b/>{0}</fonts>"
      "<fills count=\"{1}\"><fill><patternFill patternType=\"none\"/></fill>"
      "<fill><patternFill patternType=\"gray125\"/></fill>{2}</fills>"
      "<borders count=\"1\"><border/></borders><cellStyleXfs count=\"1\"><xf/></cellStyleXfs>"
      "<cellXfs count=\"{3}\">{4}</cellXfs>"
      "<cellStyles count=\"1\"><cellStyle name=\"Normal\" xfId=\"0\" builtinId=\"0\"/></cellStyles>",
      kFont, kNumFills + 2, fills, kNumFills + 2, styles);
}

// crc and both sizes, which the local header gets once the data are written.
constexpr std::uint64_t kSizesInHeader = 14;

std::string SizesOf(std::uint32_t crc, std::uint64_t stored, std::uint64_t unpacked) {
  std::string sizes;
  AppendLittle(sizes, crc);
  AppendLittle(sizes, static_cast<std::uint32_t>(stored));
  AppendLittle(sizes, static_cast<std::uint32_t>(unpacked));
  return sizes;
}

// The letters of a column.
void AppendColumn(std::uint32_t column, std::string& xml) {
  if (column >= 26) AppendColumn(column / 26 - 1, xml);
  xml += static_cast<char>('A' + column % 26);
}

void OpenCell(std::uint32_t row, std::uint32_t column, XlsxFill fill, std::string& xml) {
  xml += "<c r=\"";
  AppendColumn(column, xml);
  AppendInteger(row, xml);
  xml += '"';
  if (fill != XlsxFill::kNone) {
    xml += " s=\"";
    xml += static_cast<char>('0' + static_cast<int>(fill));
    xml += '"';
  }
}

// Excel allows 32767 characters in a cell, counted in UTF-16; cut between characters.
std::string_view Cut(std::string_view text) {
  if (text.size() <= kXlsxMostCharacters) return text;
  std::size_t num_characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0) != 0x80) num_characters += byte >= 0xF0 ? 2 : 1;
    if (num_characters > kXlsxMostCharacters) return text.substr(0, i);
  }
  return text;
}

void AppendEscaped(std::string_view text, std::string& xml) {
  for (const char c : text) {
    switch (c) {
      case '&':
        xml += "&amp;";
        break;
      case '<':
        xml += "&lt;";
        break;
      case '>':
        xml += "&gt;";
        break;
      case '"':
        xml += "&quot;";
        break;
      case '\t':
      case '\n':
        xml += c;
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          xml += fmt::format("_x{:04X}_", static_cast<unsigned char>(c));
        } else {
          xml += c;
        }
    }
  }
}

bool NeedsPreserving(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
  return !text.empty() &&
         (blank(text.front()) || blank(text.back()) || text.find('\n') != std::string_view::npos);
}

std::string XmlOf(std::string_view root, std::string_view attributes, std::string_view inside) {
  return fmt::format("{}<{} {}>{}</{}>", kXmlHead, root, attributes, inside, root);
}

}  // namespace

Result<DeflatedPiece> DeflatePiece(std::string_view text) {
  DeflatedPiece piece;
  piece.unpacked_bytes = text.size();
  piece.crc32 = static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<z_size_t>(text.size())));
  z_stream stream{};
  if (deflateInit2(&stream, kDeflateLevel, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    return Error{ErrorCode::kInternal, "deflate", "out of memory"};
  }
  constexpr std::size_t kStepBytes = std::size_t{1} << 30;  // zlib counts in 32 bits
  int status = Z_OK;
  while (status == Z_OK && !text.empty()) {
    const std::size_t step = std::min(text.size(), kStepBytes);
    const std::size_t before = piece.bytes.size();
    const std::size_t room = deflateBound(&stream, static_cast<uLong>(step)) + 16;
    piece.bytes.resize(before + room);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(step);
    stream.next_out = reinterpret_cast<Bytef*>(piece.bytes.data() + before);
    stream.avail_out = static_cast<uInt>(room);
    status = deflate(&stream, Z_SYNC_FLUSH);  // ends at a byte, without the mark of a last block
    piece.bytes.resize(before + room - stream.avail_out);
    text.remove_prefix(step);
  }
  deflateEnd(&stream);
  if (status != Z_OK) return Error{ErrorCode::kInternal, "deflate", fmt::format("zlib status {}", status)};
  return piece;
}

std::string XlsxColumnName(std::uint32_t column) {
  std::string name;
  AppendColumn(column, name);
  return name;
}

void AppendXlsxText(std::uint32_t row, std::uint32_t column, std::string_view text, XlsxFill fill,
                    std::string& xml) {
  if (text.empty()) return AppendXlsxEmpty(row, column, fill, xml);
  OpenCell(row, column, fill, xml);
  xml +=
      NeedsPreserving(text) ? " t=\"inlineStr\"><is><t xml:space=\"preserve\">" : " t=\"inlineStr\"><is><t>";
  AppendEscaped(Cut(text), xml);
  xml += "</t></is></c>";
}

void AppendXlsxNumber(std::uint32_t row, std::uint32_t column, double number, XlsxFill fill,
                      std::string& xml) {
  OpenCell(row, column, fill, xml);
  xml += "><v>";
  char digits[32];
  xml.append(digits,
             std::to_chars(digits, digits + sizeof digits, number, std::chars_format::general, 16).ptr);
  xml += "</v></c>";
}

void AppendXlsxBool(std::uint32_t row, std::uint32_t column, bool value, XlsxFill fill, std::string& xml) {
  OpenCell(row, column, fill, xml);
  xml += value ? " t=\"b\"><v>1</v></c>" : " t=\"b\"><v>0</v></c>";
}

void AppendXlsxEmpty(std::uint32_t row, std::uint32_t column, XlsxFill fill, std::string& xml) {
  if (fill == XlsxFill::kNone) return;
  OpenCell(row, column, fill, xml);
  xml += "/>";
}

Result<XlsxStream> XlsxStream::Create(const std::filesystem::path& path) {
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::CreateReport(path));
  return Create(std::move(file));
}

Result<XlsxStream> XlsxStream::Create(AtomicFile file) {
  std::FILE* out = std::fopen(file.temporary_path().c_str(), "r+b");
  if (out == nullptr) return ErrnoError(file.path(), errno);
  return XlsxStream(std::move(file), out);
}

Result<Done> XlsxStream::Put(std::string_view bytes) {
  position_ += bytes.size();
  if (std::fwrite(bytes.data(), 1, bytes.size(), out_.get()) == bytes.size()) return Done{};
  return ErrnoError(file_.path(), errno);
}

Result<Done> XlsxStream::BeginMember(std::string name) {
  Member member;
  member.header_at = position_;
  std::string header("PK\x03\x04", 4);
  AppendLittle<std::uint16_t>(header, 20);
  header += kMemberFlags;
  header += SizesOf(0, 0, 0);
  AppendLittle(header, static_cast<std::uint16_t>(name.size()));
  AppendLittle<std::uint16_t>(header, 0);
  header += name;
  member.name = std::move(name);
  members_.push_back(std::move(member));
  return Put(header);
}

Result<Done> XlsxStream::Append(const DeflatedPiece& piece) {
  Member& member = members_.back();
  member.stored_bytes += piece.bytes.size();
  member.crc32 = static_cast<std::uint32_t>(
      crc32_combine(member.crc32, piece.crc32, static_cast<z_off_t>(piece.unpacked_bytes)));
  member.unpacked_bytes += piece.unpacked_bytes;
  return Put(piece.bytes);
}

Result<Done> XlsxStream::EndMember() {
  Member& member = members_.back();
  member.stored_bytes += kFinalEmptyBlock.size();
  VN_RETURN_IF_ERROR(Put(kFinalEmptyBlock));
  return PutSizes(member);
}

Result<Done> XlsxStream::PutSizes(const Member& member) {
  // Spreadsheet programs do not agree on larger archives, so none is written.
  if (std::max({member.stored_bytes, member.unpacked_bytes, position_}) >= kMaxZipBytes) {
    return Error{ErrorCode::kTooLarge, file_.path().string(),
                 "a sheet of 4 GiB cannot be opened; write csv instead"};
  }
  const std::string sizes = SizesOf(member.crc32, member.stored_bytes, member.unpacked_bytes);
  const auto seek = [&](std::uint64_t to) {
    return fseeko(out_.get(), static_cast<off_t>(to), SEEK_SET) == 0;
  };
  const bool done = seek(member.header_at + kSizesInHeader) &&
                    std::fwrite(sizes.data(), 1, sizes.size(), out_.get()) == sizes.size() && seek(position_);
  if (done) return Done{};
  return ErrnoError(file_.path(), errno);
}

Result<Done> XlsxStream::AddMember(std::string name, std::string_view text) {
  VN_RETURN_IF_ERROR(BeginMember(std::move(name)));
  VN_ASSIGN_OR_RETURN(const DeflatedPiece piece, DeflatePiece(text));
  VN_RETURN_IF_ERROR(Append(piece));
  return EndMember();
}

Result<Done> XlsxStream::BeginSheet(std::string_view name, const SheetOptions& options) {
  VN_RETURN_IF_ERROR(EndSheet());
  const std::size_t number = sheets_.size() + 1;
  sheets_.insert(options.first ? sheets_.begin() : sheets_.end(), {std::string(name), number});
  in_sheet_ = true;
  behind_rows_ = options.behind_rows;
  VN_RETURN_IF_ERROR(BeginMember(fmt::format("xl/worksheets/sheet{}.xml", number)));
  VN_ASSIGN_OR_RETURN(const DeflatedPiece head,
                      DeflatePiece(fmt::format("{}<worksheet xmlns=\"{}\">{}<sheetData>", kXmlHead,
                                               kMainNamespace, options.layout)));
  return Append(head);
}

Result<Done> XlsxStream::EndSheet() {
  if (!in_sheet_) return Done{};
  in_sheet_ = false;
  VN_ASSIGN_OR_RETURN(const DeflatedPiece tail,
                      DeflatePiece(fmt::format("</sheetData>{}</worksheet>", behind_rows_)));
  VN_RETURN_IF_ERROR(Append(tail));
  return EndMember();
}

Result<Done> XlsxStream::Finish() {
  VN_RETURN_IF_ERROR(EndSheet());
  constexpr std::string_view kTypes = "application/vnd.openxmlformats-officedocument.spreadsheetml.";
  std::string sheets, relations, types;
  for (const Sheet& sheet : sheets_) {
    const std::size_t i = sheet.number;
    std::string name;
    AppendEscaped(sheet.name, name);
    sheets += fmt::format("<sheet name=\"{}\" sheetId=\"{}\" r:id=\"rId{}\"/>", name, i, i);
    relations +=
        fmt::format("<Relationship Id=\"rId{}\" Type=\"{}/worksheet\" Target=\"worksheets/sheet{}.xml\"/>", i,
                    kRelationships, i);
    types += fmt::format(
        "<Override PartName=\"/xl/worksheets/sheet{}.xml\" ContentType=\"{}worksheet+xml\"/>", i, kTypes);
  }
  relations += fmt::format("<Relationship Id=\"rId{}\" Type=\"{}/styles\" Target=\"styles.xml\"/>",
                           sheets_.size() + 1, kRelationships);
  const std::string main = fmt::format("xmlns=\"{}\"", kMainNamespace);
  const std::string relationship_namespace = fmt::format("xmlns=\"{}/relationships\"", kPackage);
  VN_RETURN_IF_ERROR(AddMember("xl/styles.xml", XmlOf("styleSheet", main, StylesXml())));
  VN_RETURN_IF_ERROR(AddMember(
      "xl/workbook.xml", XmlOf("workbook", main + fmt::format(" xmlns:r=\"{}\"", kRelationships),
                               "<bookViews><workbookView/></bookViews><sheets>" + sheets + "</sheets>")));
  VN_RETURN_IF_ERROR(
      AddMember("xl/_rels/workbook.xml.rels", XmlOf("Relationships", relationship_namespace, relations)));
  VN_RETURN_IF_ERROR(AddMember(
      "_rels/.rels",
      XmlOf("Relationships", relationship_namespace,
            fmt::format("<Relationship Id=\"rId1\" Type=\"{}/officeDocument\" Target=\"xl/workbook.xml\"/>",
                        kRelationships))));
  VN_RETURN_IF_ERROR(AddMember(
      "[Content_Types].xml",
      XmlOf("Types", fmt::format("xmlns=\"{}/content-types\"", kPackage),
            fmt::format("<Default Extension=\"rels\" "
                        "ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>"
                        "<Default Extension=\"xml\" ContentType=\"application/xml\"/>"
                        "<Override PartName=\"/xl/workbook.xml\" ContentType=\"{0}sheet.main+xml\"/>"
                        "<Override PartName=\"/xl/styles.xml\" ContentType=\"{0}styles+xml\"/>{1}",
                        kTypes, types))));
  VN_RETURN_IF_ERROR(PutDirectory());
  if (std::FILE* out = out_.release(); std::fclose(out) != 0) {
    return ErrnoError(file_.path(), errno);
  }
  return file_.Commit();
}

Result<Done> XlsxStream::PutDirectory() {
  const std::uint64_t directory_at = position_;
  for (const Member& member : members_) {
    std::string entry("PK\x01\x02", 4);
    AppendLittle<std::uint16_t>(entry, 20);
    AppendLittle<std::uint16_t>(entry, 20);
    entry += kMemberFlags;
    entry += SizesOf(member.crc32, member.stored_bytes, member.unpacked_bytes);
    AppendLittle(entry, static_cast<std::uint16_t>(member.name.size()));
    AppendLittle<std::uint64_t>(entry, 0);  // no extra field, no comment, first disk, no attributes
    AppendLittle<std::uint32_t>(entry, 0);
    AppendLittle(entry, static_cast<std::uint32_t>(member.header_at));
    entry += member.name;
    VN_RETURN_IF_ERROR(Put(entry));
  }
  std::string trailer("PK\x05\x06", 4);
  AppendLittle<std::uint32_t>(trailer, 0);
  AppendLittle(trailer, static_cast<std::uint16_t>(members_.size()));
  AppendLittle(trailer, static_cast<std::uint16_t>(members_.size()));
  AppendLittle(trailer, static_cast<std::uint32_t>(position_ - directory_at));
  AppendLittle(trailer, static_cast<std::uint32_t>(directory_at));
  AppendLittle<std::uint16_t>(trailer, 0);
  return Put(trailer);
}

}  // namespace vernier
