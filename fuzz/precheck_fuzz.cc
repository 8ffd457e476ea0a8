// What the pre-check reads: dump.json, details, configs, rules and answers of workers. Nothing may crash, and
// calls lie inside the text.
#include "core/mapped_file.h"
#include "format/csv.h"
#include "fuzz_file.h"
#include "precheck/call.h"
#include "precheck/calls.h"
#include "precheck/compare_row.h"
#include "precheck/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace vernier;
  using namespace vernier::precheck;
  const std::string_view text = FuzzText(data, size_bytes);
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  if (auto calls = CallList::FromFile(MappedFile::FromBytes({bytes, bytes + size_bytes}, "dump.json"))) {
    calls->DropRepeated();
    for (const RecordedCall& call : calls->calls()) {
      if (call.forward.size() > size_bytes) std::abort();
      static_cast<void>(ReasonToSkip(call, Rules::Shipped(), {}));
    }
  }
  if (const auto table = DetailsTable::FromText(text, "x")) {
    for (const DetailCells& row : table->rows()) {
      const ComparedRow compared =
          CompareRow(Rules::Shipped(), Policy::kManual, Header::kEnglish, "softmax", row, row);
      if (compared.cells.size() != kNumCompared) std::abort();
    }
  }
  for (const std::size_t end : CsvRowEnds(text)) {
    if (end > size_bytes) std::abort();
  }
  static_cast<void>(ConfigFromText(text, "x.json"));
  static_cast<void>(ConfigFromText(text, "x.yaml"));
  static_cast<void>(Rules::With(text, "x"));
  static_cast<void>(AnswerFromJson(text, "x"));
  return 0;
}
