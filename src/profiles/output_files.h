// Where results go, for every family of dumps.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "report/result_reports.h"
#include "vernier/compare.h"

namespace vernier {

// A part of the names of all results of one run: local time, or UTC, as YYYYMMDDhhmmss, with _1, _2, … behind
// it where the folder has results of that second already, or another run is about to write some. Held while
// it lives.
class ResultStamp {
 public:
  static Result<ResultStamp> Reserve(const std::filesystem::path& folder, bool utc = false);
  const std::string& text() const { return text_; }

 private:
  ResultStamp(std::string text, AtomicFile reservation)
      : text_(std::move(text)), reservation_(std::move(reservation)) {}
  std::string text_;
  AtomicFile reservation_;  // never committed
};

// A folder that is there, a name that ends in '/', or one without an ending where no format is given.
bool IsFolderName(const std::string& output, const std::string& format);
bool IsStandardOutput(const std::string& output);

struct StampedFolder {
  std::filesystem::path folder;
  ResultStamp stamp;
};

// The report of one comparison goes into the files that were asked for, and in every folder that was into one
// that its stamp names.
struct ReportPlaces {
  std::vector<OutputFile> files;
  std::vector<StampedFolder> folders;  // held until all is written
};
Result<ReportPlaces> ReportPlacesOf(const CompareRequest& request);

}  // namespace vernier
