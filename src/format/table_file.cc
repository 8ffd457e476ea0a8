#include "format/table_file.h"

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "format/csv.h"
#include "format/xlsx.h"
#include "format/zip.h"

namespace vernier {

Result<Done> ReadTable(const std::filesystem::path& path, const TableRowSink& sink) {
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(path));
  if (LooksLikeZip(file->bytes())) return Inside(path.string(), ReadXlsx(file, sink));
  if (path.extension() == ".xlsx") return Error{ErrorCode::kBadMagic, path.string(), "no xlsx file"};
  ReadCsv(TextOf(file), sink);
  return Done{};
}

}  // namespace vernier
