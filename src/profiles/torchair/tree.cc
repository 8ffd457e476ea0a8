#include "profiles/torchair/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>

namespace vernier::torchair {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kGraphPrefix = "dynamo_original_graph_", kGraphEnding = ".txt";
constexpr std::size_t kTimeDigits = 14, kLongestToken = 11;
constexpr std::string_view kDigits = "0123456789";

bool IsGraphName(std::string_view name) {
  return name.starts_with(kGraphPrefix) && name.ends_with(kGraphEnding);
}

std::string_view LastPart(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string_view ParentOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

// `visited`: where links have led to already.
Folder ReadFolder(const std::string& path, Links links, std::set<std::string>& visited) {
  Folder folder;
  folder.path = path;
  std::error_code problem;
  fs::directory_iterator entry(path, problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    if (!entry->is_directory(ignored)) {
      folder.files.push_back(name);
    } else if (!entry->is_symlink(ignored)) {
      folder.folders.push_back(name);
    } else if (links == Links::kFollow &&
               visited.insert(fs::canonical(entry->path(), ignored).string()).second) {
      folder.folders.push_back(name);
    }
  }
  std::sort(folder.folders.begin(), folder.folders.end());
  std::sort(folder.files.begin(), folder.files.end());
  return folder;
}

std::optional<std::uint64_t> RankOf(std::string_view name) {
  constexpr std::string_view kRank = "rank";
  const std::size_t at = name.rfind(kRank);
  if (!name.starts_with("worldsize") || at == std::string_view::npos) return std::nullopt;
  return NumberOf(name.substr(at + kRank.size()));
}

bool IsTime(std::string_view name) { return name.size() == kTimeDigits && NumberOf(name); }

// Two runs in one folder are no two devices: the folders below all times are counted together.
bool HasSeveralDevices(const Tree& tree, const std::string& base) {
  const Folder* folder = tree.Find(base);
  if (folder == nullptr) return false;
  const bool holds_times =
      !folder->folders.empty() && std::all_of(folder->folders.begin(), folder->folders.end(), IsTime);
  if (!holds_times) return folder->folders.size() > 1;
  std::set<std::string> devices;
  for (const std::string& time : folder->folders) {
    if (const Folder* below = tree.Find(base + "/" + time))
      devices.insert(below->folders.begin(), below->folders.end());
  }
  return devices.size() > 1;
}

void AddFiles(const Folder& folder, std::string_view ending, TokenFiles& token) {
  token.folders.push_back(folder.path);
  for (const std::string& name : folder.files) {
    if (name.ends_with(ending)) token.files.push_back(folder.path + "/" + name);
  }
}

bool HoldsTokens(const Folder& folder) {
  return !folder.folders.empty() &&
         std::all_of(folder.folders.begin(), folder.folders.end(),
                     [](const std::string& name) { return name.size() <= kLongestToken && NumberOf(name); });
}

bool HoldsNpy(const Folder& folder) {
  return std::any_of(folder.files.begin(), folder.files.end(),
                     [](const std::string& name) { return name.ends_with(".npy"); });
}

void DropEmptyTokens(TokenGroup& group) {
  std::erase_if(group.tokens, [](const auto& token) { return token.second.files.empty(); });
}

// graph_<id>/<token>/….npy
TokenGroup CurrentGroup(const Tree& tree, const Folder& folder) {
  TokenGroup group;
  const std::string_view name = LastPart(folder.path);
  constexpr std::string_view kGraph = "graph_";
  if (name.starts_with(kGraph)) group.id = NumberOf(name.substr(kGraph.size()));
  for (const std::string& token : folder.folders)
    AddFiles(*tree.Find(folder.path + "/" + token), ".npy", group.tokens[*NumberOf(token)]);
  DropEmptyTokens(group);
  return group;
}

// <token + 1>/gm_<time>_dump/….npy: the i-th folder of every token is group i.
std::vector<TokenGroup> EarlierGroups(const Tree& tree, const Folder& folder, const Warn& warn) {
  std::map<std::uint64_t, std::vector<const Folder*>> dumps;
  for (const std::string& token : folder.folders) {
    const Folder& below = *tree.Find(folder.path + "/" + token);
    auto& of_token = dumps[*NumberOf(token)];
    for (const std::string& name : below.folders) of_token.push_back(tree.Find(below.path + "/" + name));
  }
  std::string counts;
  std::set<std::size_t> different;
  for (const auto& [token, folders] : dumps) {
    counts += fmt::format("{}{}: {}", counts.empty() ? "" : ", ", token, folders.size());
    different.insert(folders.size());
  }
  if (different.size() > 1) {
    warn(fmt::format("{}: the tokens have different numbers of graphs ({{{}}}); the smallest counts",
                     folder.path, counts));
  }
  std::vector<TokenGroup> groups(different.empty() ? 0 : *different.begin());
  for (const auto& [token, folders] : dumps) {
    if (token == 0) {
      warn(fmt::format("{}/0: tokens of this layout are numbered from 1; left out", folder.path));
      continue;
    }
    for (std::size_t i = 0; i < groups.size(); ++i)
      AddFiles(*folders[i], ".npy", groups[i].tokens[token - 1]);
  }
  for (TokenGroup& group : groups) DropEmptyTokens(group);
  return groups;
}

}  // namespace

std::optional<std::uint64_t> NumberOf(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  if (text.empty() || problem != std::errc() || stop != end) return std::nullopt;
  return number;
}

Tree::Tree(const fs::path& root, Links links) {
  std::error_code problem;
  const fs::path whole = fs::canonical(root, problem);
  root_ = problem ? root.string() : whole.string();
  std::set<std::string> visited = {root_};
  std::vector<std::string> waiting = {root_};
  while (!waiting.empty()) {
    Folder folder = ReadFolder(waiting.back(), links, visited);
    waiting.pop_back();
    for (const std::string& name : folder.folders) waiting.push_back(folder.path + "/" + name);
    folders_.push_back(std::move(folder));
  }
  std::sort(folders_.begin(), folders_.end(),
            [](const Folder& a, const Folder& b) { return a.path < b.path; });
}

const Folder* Tree::Find(std::string_view path) const {
  const auto row =
      std::lower_bound(folders_.begin(), folders_.end(), path,
                       [](const Folder& folder, std::string_view wanted) { return folder.path < wanted; });
  return row == folders_.end() || row->path != path ? nullptr : &*row;
}

std::vector<const Folder*> Tree::Below(std::string_view path) const {
  std::vector<const Folder*> below;
  const std::string inside = std::string(path) + "/";
  for (const Folder& folder : folders_) {
    if (folder.path == path || folder.path.starts_with(inside)) below.push_back(&folder);
  }
  return below;
}

std::map<std::uint64_t, std::string> RankFolders(const Tree& tree) {
  std::map<std::uint64_t, std::string> ranks;
  for (const std::string& name : tree.folders().front().folders) {
    if (const auto rank = RankOf(name)) ranks[*rank] = tree.root() + "/" + name;
  }
  return ranks;
}

std::vector<GraphFile> GraphFiles(const Tree& tree, std::optional<std::uint64_t> rank) {
  std::vector<GraphFile> graphs;
  const std::string wanted = rank ? fmt::format("rank_{}_", *rank) : "";
  for (const Folder& folder : tree.folders()) {
    for (const std::string& name : folder.files) {
      if (!IsGraphName(name) || name.find(wanted) == std::string::npos) continue;
      const std::size_t first = name.find_first_of(kDigits);
      if (first == std::string::npos) continue;
      const std::size_t last = std::min(name.find_first_not_of(kDigits, first), name.size());
      const auto id = NumberOf(std::string_view(name).substr(first, last - first));
      if (id) graphs.push_back({folder.path + "/" + name, *id});
    }
  }
  std::stable_sort(graphs.begin(), graphs.end(),
                   [](const GraphFile& a, const GraphFile& b) { return a.id < b.id; });
  return graphs;
}

bool HoldsGraph(const std::string& path) {
  std::error_code problem;
  fs::directory_iterator entry(path, problem);
  for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    if (IsGraphName(entry->path().filename().string())) return true;
  }
  return false;
}

std::vector<TokenGroup> GeGroups(const Tree& tree, const std::string& base) {
  const bool by_device = HasSeveralDevices(tree, base);
  std::map<std::uint64_t, TokenGroup> groups;
  for (const Folder* folder : tree.Below(base)) {
    if (!folder->folders.empty()) continue;
    std::string_view above = ParentOf(folder->path);
    if (by_device) above = ParentOf(ParentOf(above));
    const std::uint64_t group = NumberOf(LastPart(above)).value_or(0);
    const std::uint64_t token = NumberOf(LastPart(folder->path)).value_or(0);
    AddFiles(*folder, "", groups[group].tokens[token]);
  }
  std::vector<TokenGroup> in_order;
  for (auto& [id, group] : groups) {
    for (auto& [token, files] : group.tokens) std::sort(files.files.begin(), files.files.end());
    in_order.push_back(std::move(group));
  }
  return in_order;
}

std::vector<TokenGroup> FxGroups(const Tree& tree, const std::string& base, const Warn& warn) {
  std::vector<TokenGroup> groups;
  bool found_tokens = false;
  for (const Folder* folder : tree.Below(base)) {
    if (!HoldsTokens(*folder)) continue;
    found_tokens = true;
    const bool is_current = std::any_of(
        folder->folders.begin(), folder->folders.end(),
        [&, folder](const std::string& token) { return HoldsNpy(*tree.Find(folder->path + "/" + token)); });
    if (is_current) {
      groups.push_back(CurrentGroup(tree, *folder));
    } else {
      for (TokenGroup& group : EarlierGroups(tree, *folder, warn)) groups.push_back(std::move(group));
    }
  }
  if (!found_tokens) {  // a folder of files without tokens
    TokenGroup group;
    if (const Folder* folder = tree.Find(base)) AddFiles(*folder, ".npy", group.tokens[0]);
    DropEmptyTokens(group);
    groups.push_back(std::move(group));
  }
  std::erase_if(groups, [](const TokenGroup& group) { return group.tokens.empty(); });
  for (TokenGroup& group : groups) {
    for (auto& [token, files] : group.tokens) std::sort(files.files.begin(), files.files.end());
  }
  const bool all_numbered =
      std::all_of(groups.begin(), groups.end(), [](const TokenGroup& group) { return group.id.has_value(); });
  if (all_numbered)
    std::stable_sort(groups.begin(), groups.end(),
                     [](const TokenGroup& a, const TokenGroup& b) { return a.id < b.id; });
  return groups;
}

}  // namespace vernier::torchair
