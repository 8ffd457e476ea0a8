// A path -> the index of the tensors under it.
#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/paths.h"
#include "core/threads.h"
#include "format/safetensors.h"
#include "read/folder_internal.h"
#include "read/index_internal.h"
#include "read/shard_index_internal.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;

// A dump of few files keeps them open. The system allows some ten thousand mappings, so one of many files
// opens each again when it is needed.
constexpr std::size_t kMaxHeldFiles = 64;
// Below this many files a thread costs more than it saves.
constexpr std::size_t kMinFilesPerThread = 32;

std::vector<OpenedFile> OpenTensorFiles(const std::vector<fs::path>& paths, int num_threads) {
  std::vector<OpenedFile> opened(paths.size());
  const bool hold = paths.size() <= kMaxHeldFiles;
  const std::size_t most = paths.size() / kMinFilesPerThread;
  ThreadPool pool(static_cast<int>(std::min(static_cast<std::size_t>(NumThreads(num_threads)), most)));
  pool.ForEach(paths.size(), [&](std::size_t i) { opened[i] = OpenTensorFile(paths[i], hold); });
  return opened;
}

// A checkpoint spread over files: the tensors that its index names, and the files they are said to lie in.
struct Checkpoint {
  fs::path index_path;
  std::vector<ShardedTensor> tensors;
  std::vector<std::string> shards;  // each once, in the order of the tensors, only those that may be opened
};

Result<Checkpoint> ReadCheckpoint(const FileRef& index_file) {
  Checkpoint checkpoint;
  checkpoint.index_path = index_file->path();
  VN_ASSIGN_OR_RETURN(checkpoint.tensors, ParseShardIndex(index_file));
  std::unordered_set<std::string_view> seen;
  for (const ShardedTensor& tensor : checkpoint.tensors) {
    if (CheckShardPath(tensor.shard) && seen.insert(tensor.shard).second)
      checkpoint.shards.push_back(tensor.shard);
  }
  return checkpoint;
}

// The tensors of one shard by name, taken out one by one.
struct OpenShard {
  std::uint32_t file_id = 0;
  std::optional<Error> failure;
  Entries entries;
  std::unordered_map<std::string, std::size_t> by_name;
};

OpenShard AddShard(OpenedFile opened, DumpIndex& index) {
  OpenShard shard;
  shard.failure = std::move(opened.failure);
  shard.entries = std::move(opened.tensors.entries);
  shard.file_id = index.AddFile(std::move(opened.file));
  for (std::size_t i = 0; i < shard.entries.size(); ++i) shard.by_name.emplace(shard.entries[i].info.name, i);
  return shard;
}

// `opened` are the files of checkpoint.shards. A tensor that its index names and its shard lacks is damaged;
// one that only the shard knows comes after the others.
void AddCheckpoint(const Checkpoint& checkpoint, std::span<OpenedFile> opened, const std::string& prefix,
                   DumpIndex& index) {
  std::unordered_map<std::string_view, OpenShard> shards;
  for (std::size_t i = 0; i < opened.size(); ++i) {
    shards.emplace(checkpoint.shards[i], AddShard(std::move(opened[i]), index));
  }
  const std::uint32_t index_id = index.AddFile({checkpoint.index_path, 0, 0, nullptr, {}});
  for (const ShardedTensor& tensor : checkpoint.tensors) {
    const std::string name = prefix + tensor.name;
    if (auto safe = CheckShardPath(tensor.shard); !safe) {
      index.AddDamaged(name, In(checkpoint.index_path.string(), std::move(safe).error()), index_id);
      continue;
    }
    OpenShard& shard = shards.at(tensor.shard);
    const auto found = shard.by_name.find(tensor.name);
    if (shard.failure) {
      index.AddDamaged(name, *shard.failure, shard.file_id);
    } else if (found == shard.by_name.end()) {
      const std::string where = index.files[shard.file_id].path.string() + ": " + tensor.name;
      index.AddDamaged(name, Error{ErrorCode::kNotFound, where, "the index names it, the shard lacks it"},
                       shard.file_id);
    } else {
      index.AddTensor(name, std::move(shard.entries[found->second]), shard.file_id);
      shard.by_name.erase(found);
    }
  }
  for (const std::string& shard_path : checkpoint.shards) {
    OpenShard& shard = shards.at(shard_path);
    for (std::size_t i = 0; i < shard.entries.size(); ++i) {
      const std::string inside = shard.entries[i].info.name;
      const auto left = shard.by_name.find(inside);
      if (left == shard.by_name.end() || left->second != i) continue;
      index.AddTensor(prefix + (inside.empty() ? shard_path : inside), std::move(shard.entries[i]),
                      shard.file_id);
    }
  }
}

std::vector<fs::path> ShardPaths(const Checkpoint& checkpoint) {
  std::vector<fs::path> paths;
  for (const std::string& shard : checkpoint.shards)
    paths.push_back(checkpoint.index_path.parent_path() / shard);
  return paths;
}

Result<Done> BuildFromFile(int num_threads, DumpIndex& index) {
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(index.path));
  if (LooksLikeShardIndex(file->bytes())) {
    VN_ASSIGN_OR_RETURN(const Checkpoint checkpoint, ReadCheckpoint(file));
    std::vector<OpenedFile> shards = OpenTensorFiles(ShardPaths(checkpoint), num_threads);
    AddCheckpoint(checkpoint, shards, "", index);
    return Done{};
  }
  OpenedFile opened = ListOpenFile(file, /*hold=*/true);
  if (!opened.is_ours) return *std::move(opened.failure);
  const std::string stem(WithoutTensorExtension(index.path.filename().string()));
  index.AddTensors(std::move(opened), stem, "");
  return Done{};
}

// What one file of a folder adds to the index: its tensors, those of the checkpoint it is the index of, or
// the reason why it could not be read.
struct Unit {
  std::string relative;
  std::optional<Error> failure;
  std::optional<Checkpoint> checkpoint;
  std::size_t first_opened = 0, num_opened = 0;  // of the files opened for the folder
};

std::string Normal(const fs::path& path) { return path.lexically_normal().string(); }

// The index of a checkpoint, or nothing when `found` is JSON of another kind.
std::optional<Unit> CheckpointUnit(const fs::path& root, const FoundFile& found) {
  const Result<FileRef> file = MappedFile::Open(root / found.relative);
  if (!file) return Unit{found.relative, file.error(), {}};
  Result<Checkpoint> checkpoint = ReadCheckpoint(*file);
  if (checkpoint) return Unit{found.relative, {}, *std::move(checkpoint)};
  if (checkpoint.error().code == ErrorCode::kNotADump) return std::nullopt;
  return Unit{found.relative, std::move(checkpoint).error(), {}};
}

// In sorted order. The shards of a checkpoint are part of it and not files of their own.
std::vector<Unit> FindUnits(const fs::path& root, const std::vector<FoundFile>& found) {
  std::unordered_map<std::string_view, Unit> checkpoints;
  std::unordered_set<std::string> shards;
  for (const FoundFile& file : found) {
    if (file.failure || !IsShardIndexName(file.relative)) continue;
    std::optional<Unit> unit = CheckpointUnit(root, file);
    if (!unit) continue;
    if (unit->checkpoint) {
      for (const fs::path& path : ShardPaths(*unit->checkpoint)) shards.insert(Normal(path));
    }
    checkpoints.emplace(file.relative, *std::move(unit));
  }
  std::vector<Unit> units;
  for (const FoundFile& file : found) {
    if (const auto row = checkpoints.find(file.relative); row != checkpoints.end()) {
      units.push_back(std::move(row->second));
    } else if (file.failure) {
      units.push_back({file.relative, file.failure, {}});
    } else if (!PromisesNoTensors(file.relative) &&
               (shards.empty() || !shards.contains(Normal(root / file.relative)))) {
      units.push_back({file.relative, {}, {}});
    }
  }
  return units;
}

std::vector<OpenedFile> OpenUnits(const fs::path& root, int num_threads, std::vector<Unit>& units) {
  std::vector<fs::path> paths;
  for (Unit& unit : units) {
    unit.first_opened = paths.size();
    if (unit.checkpoint) {
      for (fs::path& path : ShardPaths(*unit.checkpoint)) paths.push_back(std::move(path));
    } else if (!unit.failure) {
      paths.push_back(root / unit.relative);
    }
    unit.num_opened = paths.size() - unit.first_opened;
  }
  return OpenTensorFiles(paths, num_threads);
}

// Files of which only the ending differs keep it.
std::unordered_set<std::string_view> AmbiguousStems(const std::vector<Unit>& units) {
  std::unordered_set<std::string_view> seen, twice;
  for (const Unit& unit : units) {
    const std::string_view stem = WithoutTensorExtension(unit.relative);
    if (!seen.insert(stem).second) twice.insert(stem);
  }
  return twice;
}

void AddUnit(const fs::path& root, Unit unit, std::span<OpenedFile> opened, const std::string& stem,
             const std::string& prefix, DumpIndex& index) {
  if (unit.checkpoint) return AddCheckpoint(*unit.checkpoint, opened, prefix, index);
  if (!unit.failure) return index.AddTensors(std::move(opened.front()), stem, prefix);
  const std::uint32_t file_id = index.AddFile({root / unit.relative, 0, 0, nullptr, {}});
  index.AddDamaged(unit.relative, *std::move(unit.failure), file_id);
}

Result<Done> BuildFromFolder(int num_threads, DumpIndex& index) {
  const fs::path& root = index.path;
  VN_ASSIGN_OR_RETURN(const std::vector<FoundFile> found, WalkFolder(root));
  std::vector<Unit> units = FindUnits(root, found);
  std::vector<OpenedFile> opened = OpenUnits(root, num_threads, units);
  std::erase_if(units, [&](const Unit& unit) {
    if (unit.failure || unit.checkpoint) return false;
    return !opened[unit.first_opened].is_ours && !PromisesTensors(unit.relative);
  });
  if (units.empty()) return Error{ErrorCode::kNotADump, root.string(), "no tensor file in this folder"};
  const bool is_checkpoint =
      units.size() == 1 &&
      (units.front().checkpoint ||
       (!units.front().failure && opened[units.front().first_opened].tensors.format == "safetensors"));
  const std::unordered_set<std::string_view> ambiguous = AmbiguousStems(units);
  for (const Unit& unit : units) {
    std::string stem(WithoutTensorExtension(unit.relative));
    if (ambiguous.contains(stem)) stem = unit.relative;
    const std::string prefix = is_checkpoint ? "" : stem + ":";
    AddUnit(root, unit, std::span(opened).subspan(unit.first_opened, unit.num_opened), stem, prefix, index);
  }
  return Done{};
}

}  // namespace

Result<Done> BuildIndex(int num_threads, DumpIndex& index) {
  if (!Exists(index.path)) return MissingPath(index.path);
  return IsFolder(index.path) ? BuildFromFolder(num_threads, index) : BuildFromFile(num_threads, index);
}

}  // namespace vernier
