// What lies under the two roots of a graph-mode dump: ranks, graphs, groups of tokens and their files. Only
// names are looked at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vernier::torchair {

using Warn = std::function<void(const std::string& line)>;

// One folder and what is in it, sorted.
struct Folder {
  std::string path;
  std::vector<std::string> folders, files;  // names
};

enum class Links : std::uint8_t { kFollow, kPassOver };  // to folders

// All folders at and below a root, sorted by path, read once. A folder that several links lead to is read
// once as well.
class Tree {
 public:
  explicit Tree(const std::filesystem::path& root, Links links = Links::kFollow);

  const std::string& root() const { return root_; }
  const std::vector<Folder>& folders() const { return folders_; }
  // Null: there is no such folder.
  const Folder* Find(std::string_view path) const;
  // The folders at and below one of them.
  std::vector<const Folder*> Below(std::string_view path) const;

 private:
  std::string root_;
  std::vector<Folder> folders_;
};

// The digits, if a text consists of nothing else.
std::optional<std::uint64_t> NumberOf(std::string_view text);

// Folders worldsize…rank<N> of the root, by rank; of two with one rank the last by name counts.
std::map<std::uint64_t, std::string> RankFolders(const Tree& tree);

struct GraphFile {
  std::string path;
  std::uint64_t id = 0;  // the first number of its name
};
// The texts of the original graphs, by id. `rank`: only those of that rank.
std::vector<GraphFile> GraphFiles(const Tree& tree, std::optional<std::uint64_t> rank);
// Whether a path is a folder with such a text in it; cheap.
bool HoldsGraph(const std::string& path);

struct TokenFiles {
  std::vector<std::string> folders;
  std::vector<std::string> files;  // paths, sorted
};
// The dump of one graph.
struct TokenGroup {
  std::optional<std::uint64_t> id;  // of an FX group: the number of its folder graph_<id>
  std::map<std::uint64_t, TokenFiles> tokens;
};

// Groups of the GE dump below `base`, in order.
std::vector<TokenGroup> GeGroups(const Tree& tree, const std::string& base);
// Groups of the FX dump below `base`, in order. Layouts of all versions; the older ones number tokens from 1.
std::vector<TokenGroup> FxGroups(const Tree& tree, const std::string& base, const Warn& warn);

}  // namespace vernier::torchair
