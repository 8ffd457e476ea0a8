// What stands beside the document: stack.json and construct.json, kept in memory and written whole, and
// identity.jsonl, which grows.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "record/entry.h"
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

// {"0": [[names], [frames]], ...}, numbered in the order of first use.
class StackFile {
 public:
  // `name` must outlive this object.
  void Add(std::uint32_t stack, std::string_view name);
  Result<Done> Write(const std::filesystem::path& path, const StackTable& stacks) const;

 private:
  struct Use {
    std::uint32_t stack;
    std::vector<std::string_view> names;
  };
  std::vector<Use> uses_;
  std::unordered_map<std::uint32_t, std::size_t> use_of_;
};

// {name: parent or null, ...}, in the order in which names first came. With micro-steps {name: [parent,
// micro-step], ...} and how many there were, less one.
class ConstructFile {
 public:
  void Set(std::string_view name, std::optional<std::string_view> parent,
           std::optional<std::int64_t> micro_step);
  Result<Done> Write(const std::filesystem::path& path) const;

 private:
  struct Member {
    std::string name;
    std::optional<std::string> parent;
    std::optional<std::int64_t> micro_step;
    bool is_number = false;  // micro_step alone
  };
  Member& MemberFor(std::string_view name);

  std::deque<Member> members_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

// identity.jsonl: which tensors of which records are the same memory. A line for each record, many written at
// a time. Used by one thread at a time.
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
  int fd_ = -1;
  std::string lines_;
};

}  // namespace vernier
