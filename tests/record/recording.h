// A recorder with a folder of its own, and tensors to hand to it.
#pragma once

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "temporary_folder.h"
#include "vernier/dtype.h"
#include "vernier/read.h"
#include "vernier/record.h"

namespace vernier {

using Words = std::vector<std::int64_t>;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct TensorExtras {
  std::int64_t storage = 0, version = 0;
  std::uint32_t flags = 0;
};

inline Words Tensor(const void* data, Dtype dtype, const std::vector<std::int64_t>& shape,
                    const TensorExtras& extras = {}, std::vector<std::int64_t> strides = {}) {
  if (strides.empty()) {
    std::int64_t stride = 1;
    strides.resize(shape.size());
    for (std::size_t i = shape.size(); i-- > 0; stride *= shape[i]) strides[i] = stride;
  }
  return Words{
             reinterpret_cast<std::int64_t>(data), extras.storage, extras.version,
             static_cast<std::int64_t>(dtype),     extras.flags,   static_cast<std::int64_t>(shape.size())} +
         shape + strides;
}

inline Words Floats(const std::vector<float>& data, const TensorExtras& extras = {}) {
  return Tensor(data.data(), Dtype::kF32, {static_cast<std::int64_t>(data.size())}, extras);
}

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Recording {
 public:
  explicit Recording(RecorderOptions options = {}, bool debug = false)
      : Recording(std::move(options), debug, TemporaryParent()) {}
  Recording(RecorderOptions options, bool debug, std::shared_ptr<TemporaryFolder> parent)
      : parent_(std::move(parent)) {
    where_.folder = parent_->path() / "step0" / "rank0";
    where_.file = debug ? "debug.json" : "dump.json";
    where_.header = R"({"task":"statistics","level":"L1"})";
    if (options.tensors) where_.dump_data_dir = "data";
    if (options.min_free_bytes < 0) options.min_free_bytes = 0;
    recorder_ = *Recorder::Open(std::move(options));
    EXPECT_TRUE(recorder_->Begin(where_));
  }

  Recorder& operator*() { return *recorder_; }
  Recorder* operator->() { return recorder_.get(); }
  void Close() { recorder_.reset(); }
  const std::filesystem::path& folder() const { return where_.folder; }
  const RecordFolder& where() const { return where_; }

  // Puts and expects that to succeed; gives what was seen.
  std::uint32_t Put(std::string_view name, std::string_view text, const Words& words = {},
                    std::uint32_t flags = kFinish, std::int64_t stack = -1) {
    std::uint32_t seen = 0;
    const Result<Done> result = recorder_->Put(name, text, words, stack, flags, seen);
    EXPECT_TRUE(result) << result.error().Message();
    return seen;
  }
  void Flush() {
    const Result<Done> result = recorder_->Flush();
    EXPECT_TRUE(result) << result.error().Message();
  }

  std::string Document() const { return ReadFile(where_.folder / where_.file); }
  std::string File(const std::string& name) const { return ReadFile(where_.folder / name); }
  // The part of the document between its head and its end.
  std::string Data() const {
    const std::string text = Document();
    const std::string before = "\"data\": ";
    const std::size_t at = text.find(before);
    if (at == std::string::npos || !text.ends_with("\n}")) return "broken: " + text;
    return text.substr(at + before.size(), text.size() - 2 - at - before.size());
  }
  std::set<std::string> TensorFiles() const {
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(where_.folder / "dump_tensor_data")) {
      names.insert(file.path().filename());
    }
    return names;
  }

 private:
  static std::shared_ptr<TemporaryFolder> TemporaryParent() { return std::make_shared<TemporaryFolder>(); }

  std::shared_ptr<TemporaryFolder> parent_;
  RecordFolder where_;
  std::unique_ptr<Recorder> recorder_;
};

// The texts behind "key": in a document, in order.
inline std::vector<std::string> ValuesOf(const std::string& text, const std::string& key) {
  std::vector<std::string> values;
  const std::string before = "\"" + key + "\": ";
  for (std::size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1)) {
    const std::size_t start = at + before.size();
    values.push_back(text.substr(start, text.find_first_of(",\n", start) - start));
  }
  return values;
}

// Max, Min, Mean and Norm of the only tensor of a document, with blanks between them.
inline std::string Statistics(const std::string& text) {
  std::string found;
  for (const char* key : {"Max", "Min", "Mean", "Norm"}) {
    for (const std::string& value : ValuesOf(text, key)) found += (found.empty() ? "" : " ") + value;
  }
  return found;
}

// The elements of a file, as our own reader sees them.
inline std::vector<float> Load(const std::filesystem::path& path) {
  const Result<Dump> dump = Dump::Open(path, {});
  if (!dump || dump->tensors().size() != 1) return {};
  const Result<TensorView> view = dump->Load(0);
  if (!view) return {};
  std::vector<float> values(view->num_elements);
  std::memcpy(values.data(), view->data, view->num_bytes());
  return values;
}
inline std::vector<float> Load(const Recording& recording, const std::string& name) {
  return Load(recording.folder() / "dump_tensor_data" / name);
}

}  // namespace vernier
