// The two files of a pre-check, which grow as calls are finished: details first, then the result, so that a
// call whose result is there has all its details.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_set>

#include "precheck/call.h"
#include "precheck/columns.h"
#include "vernier/result.h"

namespace vernier::precheck {

// A file that is only ever added to.
class AppendedFile {
 public:
  static Result<AppendedFile> Create(const std::filesystem::path& path);  // fails where there is one already
  static Result<AppendedFile> Open(const std::filesystem::path& path);
  AppendedFile(AppendedFile&& other) noexcept;
  AppendedFile& operator=(AppendedFile&& other) noexcept;
  ~AppendedFile();

  Result<Done> Append(std::string_view text) const;

 private:
  AppendedFile(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::filesystem::path path_;
  int fd_ = -1;
};

// Used by one thread at a time.
class ResultFiles {
 public:
  // accuracy_checking_{result,details}_STAMP.csv in a folder that is made where it is missing.
  static Result<ResultFiles> Create(const std::filesystem::path& folder, const std::string& stamp,
                                    const std::string& suffix, Header header);
  // Those of one device beside those of the run: goes on where they are there already.
  static Result<ResultFiles> CreateOrContinue(const std::filesystem::path& folder, const std::string& stamp,
                                              const std::string& suffix, Header header);
  // Goes on with the files of an interrupted run. A row that was cut is dropped, and so are details of calls
  // without a result.
  static Result<ResultFiles> Resume(const std::filesystem::path& result);

  // The calls that are finished already.
  bool IsDone(std::string_view name) const;
  Result<Done> Append(std::string_view name, const CallAnswer& answer);

  const std::filesystem::path& result() const { return result_path_; }
  const std::filesystem::path& details() const { return details_path_; }
  const std::string& stamp() const { return stamp_; }  // of the files' names

 private:
  static Result<ResultFiles> Continue(const std::filesystem::path& result,
                                      const std::filesystem::path& details, const std::string& stamp);
  ResultFiles(AppendedFile result, AppendedFile details)
      : result_(std::move(result)), details_(std::move(details)) {}

  AppendedFile result_, details_;
  std::filesystem::path result_path_, details_path_;
  std::string stamp_;
  std::unordered_set<std::string> done_;
};

}  // namespace vernier::precheck
