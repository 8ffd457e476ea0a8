// The writers behind ReportWriter::Create.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "vernier/report.h"

namespace vernier {

using Columns = std::vector<std::string>;
using Writer = Result<std::unique_ptr<ReportWriter>>;

Writer NewCsvWriter(AtomicFile file, const Columns& columns, const ReportOptions& options);
Writer NewJsonWriter(AtomicFile file, const Columns& columns, const ReportOptions& options);
Writer NewJsonlWriter(AtomicFile file, const Columns& columns, const ReportOptions& options);
Writer NewXlsxWriter(AtomicFile file, const Columns& columns, const ReportOptions& options);

}  // namespace vernier
