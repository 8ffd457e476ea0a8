// json: one list of objects; jsonl: one object a line.
#include "core/atomic_file.h"
#include "core/json_writer.h"
#include "core/text.h"
#include "report/writers_internal.h"

namespace vernier {
namespace {

class JsonWriter final : public ReportWriter {
 public:
  JsonWriter(AtomicFile file, const Columns& columns, bool as_list)
      : file_(std::move(file)), columns_(columns), as_list_(as_list) {
    paths_.push_back(file_.path());
  }

  Result<Rendered> Render(std::uint64_t first_row, const RowBlock& rows) const override {
    RenderedPiece piece;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (as_list_) piece.bytes += first_row + i == 0 ? "[\n" : ",\n";
      AppendJsonRow(columns_, rows.row(i), JsonFloat::kQuotedWords, 0, piece.bytes);
      if (!as_list_) piece.bytes += '\n';
    }
    return Rendered{std::move(piece)};
  }

  Result<Done> Append(const Rendered& rendered) override {
    for (const RenderedPiece& piece : rendered) {
      empty_ = empty_ && piece.bytes.empty();
      VN_RETURN_IF_ERROR(file_.Write(piece.bytes));
    }
    return Done{};
  }

  Result<Done> Finish() override {
    if (as_list_) VN_RETURN_IF_ERROR(file_.Write(empty_ ? "[]\n" : "\n]\n"));
    return file_.Commit();
  }

 private:
  AtomicFile file_;
  const Columns columns_;
  const bool as_list_;
  bool empty_ = true;
};

Writer NewWriter(const std::filesystem::path& path, const Columns& columns, bool as_list) {
  VN_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::CreateReport(path));
  return std::unique_ptr<ReportWriter>(std::make_unique<JsonWriter>(std::move(file), columns, as_list));
}

}  // namespace

void AppendJsonCell(const Cell& cell, JsonFloat floats, std::string& out) {
  switch (cell.kind) {
    case Cell::Kind::kNone:
      out += "null";
      break;
    case Cell::Kind::kBool:
      AppendJsonBool(cell.integer != 0, out);
      break;
    case Cell::Kind::kNumber:
      AppendJsonFloat(cell.number, out, floats);
      break;
    case Cell::Kind::kText:
    case Cell::Kind::kShown:
      AppendJsonString(ValidUtf8(cell.text), out, JsonText::kUtf8);
      break;
    default:
      AppendText(cell, out);
  }
}

void AppendJsonRow(std::span<const std::string> columns, std::span<const Cell> cells, JsonFloat floats,
                   int indent, std::string& out) {
  const std::string separator =
      indent > 0 ? ",\n" + std::string(static_cast<std::size_t>(indent), ' ') : ", ";
  out += '{';
  if (indent > 0) out += std::string_view(separator).substr(1);
  bool first = true;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (cells[i].kind == Cell::Kind::kJson && cells[i].text.empty()) continue;
    if (!first) out += separator;
    first = false;
    AppendJsonString(columns[i], out, JsonText::kUtf8);
    out += ": ";
    AppendJsonCell(cells[i], floats, out);
  }
  if (indent == 0) out += '}';
}

Writer NewJsonWriter(const std::filesystem::path& path, const Columns& columns, const ReportOptions&) {
  return NewWriter(path, columns, true);
}

Writer NewJsonlWriter(const std::filesystem::path& path, const Columns& columns, const ReportOptions&) {
  return NewWriter(path, columns, false);
}

}  // namespace vernier
