// Reading .xlsx: the sheets in their order, texts that are shared or in place, numbers as they are written.
#include <algorithm>
#include <charconv>
#include <map>

#include "format/little_endian.h"
#include "format/xlsx.h"
#include "format/xml_cursor.h"
#include "format/zip.h"

namespace vernier {
namespace {

constexpr std::size_t kMaxColumns = 16384;  // the format's own limit
using Event = XmlCursor::Event;

class XlsxReader {
 public:
  explicit XlsxReader(FileRef file) : file_(std::move(file)) {}

  Result<Done> Run(const TableRowSink& sink) {
    VN_ASSIGN_OR_RETURN(members_, ListZip(file_));
    VN_RETURN_IF_ERROR(ReadSharedStrings());
    VN_ASSIGN_OR_RETURN(const std::vector<std::string> sheets, SheetParts());
    for (const std::string& sheet : sheets) {
      VN_ASSIGN_OR_RETURN(const Bytes xml, Part(sheet));
      if (!ReadSheet(AsText(xml), sink)) break;
    }
    return Done{};
  }

 private:
  const ZipMember* Find(std::string_view name) const {
    const auto found = std::find_if(members_.begin(), members_.end(),
                                    [&](const ZipMember& member) { return member.name == name; });
    return found == members_.end() ? nullptr : &*found;
  }

  Result<Bytes> Part(std::string_view name) const {
    if (const ZipMember* member = Find(name)) return UnzipMember(file_, *member);
    return Error{ErrorCode::kBadHeader, std::string(name), "the workbook has no such part"};
  }

  Result<Done> ReadSharedStrings() {
    if (!Find("xl/sharedStrings.xml")) return Done{};
    VN_ASSIGN_OR_RETURN(const Bytes xml, Part("xl/sharedStrings.xml"));
    XmlCursor cursor(AsText(xml));
    bool in_text = false;
    for (Event event = cursor.Next(); event != Event::kDone; event = cursor.Next()) {
      if (event == Event::kStart && cursor.name() == "si") strings_.emplace_back();
      if (event != Event::kText && cursor.name() == "t") in_text = event == Event::kStart;
      if (event == Event::kText && in_text && !strings_.empty()) strings_.back() += cursor.text();
    }
    for (std::string& text : strings_) text = Unescape(text);
    return Done{};
  }

  // Sheets in the workbook's order.
  Result<std::vector<std::string>> SheetParts() const {
    VN_ASSIGN_OR_RETURN(const Bytes relations, Part("xl/_rels/workbook.xml.rels"));
    std::map<std::string, std::string> targets;
    XmlCursor relation(AsText(relations));
    for (Event event = relation.Next(); event != Event::kDone; event = relation.Next()) {
      if (event != Event::kStart || relation.name() != "Relationship") continue;
      const std::string target = relation.Attribute("Target");
      targets[relation.Attribute("Id")] = target.starts_with('/') ? target.substr(1) : "xl/" + target;
    }
    VN_ASSIGN_OR_RETURN(const Bytes workbook, Part("xl/workbook.xml"));
    std::vector<std::string> parts;
    XmlCursor sheet(AsText(workbook));
    for (Event event = sheet.Next(); event != Event::kDone; event = sheet.Next()) {
      // "r:id", which differs from "sheetId" also without its prefix.
      if (event == Event::kStart && sheet.name() == "sheet") parts.push_back(targets[sheet.Attribute("id")]);
    }
    return parts;
  }

  bool ReadSheet(std::string_view xml, const TableRowSink& sink) const {
    XmlCursor cursor(xml);
    std::vector<TableCell> row;
    std::string type, value;
    std::size_t column = 0;
    bool in_value = false;
    for (Event event = cursor.Next(); event != Event::kDone; event = cursor.Next()) {
      if (event == Event::kText) {
        if (in_value) value += cursor.text();
        continue;
      }
      const std::string_view name = cursor.name();
      const bool starts = event == Event::kStart;
      if (name == "row") {
        if (!starts && !sink(row)) return false;
        if (starts) row.clear();
      } else if (name == "c") {
        if (starts) {
          type = cursor.Attribute("t");
          value.clear();
          column = ColumnOf(cursor.Attribute("r"), row.size());
        } else if (column < kMaxColumns) {
          row.resize(std::max(row.size(), column + 1));
          row[column] = CellOf(type, value);
        }
      } else if (name == "v" || name == "t") {
        in_value = starts;
      }
    }
    return true;
  }

  static std::size_t ColumnOf(std::string_view reference, std::size_t otherwise) {
    std::size_t column = 0;
    for (const char c : reference) {
      if (c < 'A' || c > 'Z' || column > kMaxColumns) break;
      column = column * 26 + static_cast<std::size_t>(c - 'A') + 1;
    }
    return column == 0 ? otherwise : column - 1;
  }

  TableCell CellOf(const std::string& type, const std::string& value) const {
    using Kind = TableCell::Kind;
    if (value.empty()) return {};
    if (type == "b") return {Kind::kBool, value == "1" ? "True" : "False"};
    if (type == "s") {
      std::size_t index = 0;
      std::from_chars(value.data(), value.data() + value.size(), index);
      return index < strings_.size() ? TableCell{Kind::kText, strings_[index]} : TableCell{};
    }
    if (type == "inlineStr" || type == "str" || type == "e") return {Kind::kText, Unescape(value)};
    return {Kind::kNumber, value};
  }

  // Control characters are written as _x000A_.
  static std::string Unescape(const std::string& text) {
    if (text.find("_x") == std::string::npos) return text;
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      unsigned code = 0;
      if (text.compare(at, 2, "_x") == 0 && at + 7 <= text.size() && text[at + 6] == '_') {
        const char* first = text.data() + at + 2;
        const auto [end, error] = std::from_chars(first, first + 4, code, 16);
        if (error == std::errc() && end == first + 4 && code < 0x80) {
          out += static_cast<char>(code);
          at += 7;
          continue;
        }
      }
      out += text[at++];
    }
    return out;
  }

  FileRef file_;
  std::vector<ZipMember> members_;
  std::vector<std::string> strings_;
};

}  // namespace

Result<Done> ReadXlsx(const FileRef& file, const TableRowSink& sink) { return XlsxReader(file).Run(sink); }

}  // namespace vernier
