// What the reader of dumps remembers of objects in the text, so that its work stays linear in their size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/json_cursor.h"

namespace vernier::msprobe {

struct Member {
  std::string_view key;
  bool escaped;
  JsonKind kind;
  std::size_t begin, end;
};

// The members of an object, found by key: a few one by one, many through a table.
class Members {
 public:
  Member* Find(std::string_view key) {
    if (all_.size() < kMany) {
      const auto found =
          std::find_if(all_.begin(), all_.end(), [&](const Member& m) { return m.key == key; });
      return found == all_.end() ? nullptr : &*found;
    }
    for (std::size_t i = by_key_.size(); i < all_.size(); ++i) by_key_.emplace(all_[i].key, i);
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : &all_[found->second];
  }
  // REQUIRES: Find(member.key) found none
  void Add(const Member& member) { all_.push_back(member); }
  void Clear() {
    all_.clear();
    by_key_.clear();
  }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  static constexpr std::size_t kMany = 32;
  std::vector<Member> all_;
  std::unordered_map<std::string_view, std::size_t> by_key_;
};

// Where each list and object inside one value ends, so that nested ones are not stepped over again at every
// level.
class Ends {
 public:
  void Find(std::string_view text, std::size_t begin, std::size_t end) {
    begin_ = begin, end_ = end;
    ends_.clear();
    std::vector<std::size_t> open;  // of `ends_`
    for (std::size_t at = begin; at < end; ++at) {
      const char c = text[at];
      if (c == '"') {
        while (++at < end && text[at] != '"') at += text[at] == '\\';
      } else if (c == '{' || c == '[') {
        open.push_back(ends_.size());
        ends_.emplace_back(at, end);
      } else if ((c == '}' || c == ']') && !open.empty()) {
        ends_[open.back()].second = at + 1;
        open.pop_back();
      }
    }
  }
  void Forget() { begin_ = end_ = 0; }
  bool Covers(std::size_t at) const { return at >= begin_ && at < end_; }
  // REQUIRES: Covers(at), and a list or an object begins there
  std::size_t Of(std::size_t at) const {
    return std::lower_bound(ends_.begin(), ends_.end(), std::pair(at, std::size_t{0}))->second;
  }

 private:
  std::size_t begin_ = 0, end_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> ends_;  // (begin, end), by begin
};

}  // namespace vernier::msprobe
