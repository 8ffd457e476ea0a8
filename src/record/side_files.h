// What stands beside the document: stack.json and construct.json, kept in memory, and identity.jsonl.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "record/entry.h"
#include "record/growing_file.h"
#include "vernier/result.h"

namespace vernier {

// Call stacks by number; numbers with equal texts are one stack. Outlives the folders.
class StackTable {
 public:
  // `frames`: a compact JSON list of texts. Fails when it is none.
  Result<Done> Declare(std::int64_t number, std::string_view frames);
  // Which stack a number means; fails, for the record `name`, when it was never declared.
  Result<std::uint32_t> Find(std::int64_t number, std::string_view name) const;
  // The stack as JSON, as stack.json shows it.
  const std::string& text(std::uint32_t stack) const { return texts_[stack]; }

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, std::uint32_t> by_text_;
  std::unordered_map<std::int64_t, std::uint32_t> by_number_;
};

// An object that is kept in memory and written whole, and grows by members in between. Used by one thread at
// a time, like the two that have one.
class MembersFile {
 public:
  void SetPath(std::filesystem::path path) { path_ = std::move(path); }
  // Replaces the file by one with `count` members; append(i, text) gives each as `"key": value`.
  Result<Done> Write(std::size_t count, const std::function<void(std::size_t, std::string&)>& append);
  // The same for members that follow those that are there. REQUIRES: the file was written
  Result<Done> Grow(std::size_t count, const std::function<void(std::size_t, std::string&)>& append);
  std::uint64_t whole_bytes() const { return whole_bytes_; }
  // See GrowingFile.
  void Rest() { file_.Rest(); }

 private:
  static constexpr std::string_view kEmptyTail = "}", kTail = "\n}";

  std::filesystem::path path_;
  std::uint64_t whole_bytes_ = 0;  // of the file when it was written
  bool empty_ = true;
  std::string buffer_;
  GrowingFile file_;
};

// {"0": [[names], [frames]], ...}, numbered in the order of first use.
class StackFile {
 public:
  explicit StackFile(const StackTable& stacks) : stacks_(stacks) {}
  void SetPath(std::filesystem::path path) { file_.SetPath(std::move(path)); }
  // `name` must outlive this object.
  void Add(std::uint32_t stack, std::string_view name);
  // The file is as it should be.
  Result<Done> Write();
  // The file has every name. Names that are new for a stack it has already stand in another member, with the
  // same frames, until the next Write().
  Result<Done> Grow();
  void Rest() { file_.Rest(); }

 private:
  struct Use {
    std::uint32_t stack;
    std::vector<std::string_view> names;
    std::size_t num_written = 0;  // of the names
  };
  void AppendUse(std::size_t key, const Use& use, std::size_t first_name, std::string& text) const;

  const StackTable& stacks_;
  std::vector<Use> uses_;
  std::unordered_map<std::uint32_t, std::size_t> use_of_;
  std::vector<std::size_t> fresh_;  // uses with names that are not written
  std::size_t next_key_ = 0;        // of a member
  std::uint64_t repeated_bytes_ = 0;
  bool is_whole_ = false;
  MembersFile file_;
};

// {name: parent or null, ...}, in the order in which names first came. With micro-steps {name: [parent,
// micro-step], ...} and how many there were, less one.
class ConstructFile {
 public:
  void SetPath(std::filesystem::path path) { file_.SetPath(std::move(path)); }
  void Set(std::string_view name, std::optional<std::string_view> parent,
           std::optional<std::int64_t> micro_step);
  // The file is as it should be.
  Result<Done> Write();
  // The file has every name. One that has changed comes again: the last one counts, as in Python's `dict`.
  Result<Done> Grow();
  void Rest() { file_.Rest(); }

 private:
  struct Member {
    std::string name;
    std::optional<std::string> parent;
    std::optional<std::int64_t> micro_step;
    bool is_number = false;  // micro_step alone
    bool is_fresh = false;   // not written, or changed since
  };
  Member& MemberFor(std::string_view name);
  void Changed(Member& member);
  static void AppendMember(const Member& member, std::string& text);

  std::deque<Member> members_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
  std::vector<Member*> fresh_;
  bool is_whole_ = false;
  MembersFile file_;
};

// identity.jsonl: which tensors of which records are the same memory. A line for each record, many written at
// a time. Thread-safe.
class IdentityFile {
 public:
  IdentityFile() = default;
  IdentityFile(const IdentityFile&) = delete;
  IdentityFile& operator=(const IdentityFile&) = delete;
  ~IdentityFile();

  // Without it everything else does nothing.
  Result<Done> Create(const std::filesystem::path& path);
  // Fields that came back from the sink stay as an earlier line has them.
  Result<Done> Add(const Entry& entry, std::span<const Field> fields);
  void SetState(std::string_view state);
  Result<Done> Flush();

 private:
  // REQUIRES: mutex_ is held
  Result<Done> FlushLines();

  std::mutex mutex_;  // the writer adds lines while another thread flushes them
  int fd_ = -1;
  std::string lines_;
};

}  // namespace vernier
