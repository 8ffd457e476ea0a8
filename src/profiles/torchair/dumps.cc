#include "profiles/torchair/dumps.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <unordered_map>

#include "core/json_cursor.h"
#include "core/mapped_file.h"
#include "core/threads.h"
#include "format/csv.h"
#include "format/npz.h"

namespace vernier::torchair {
namespace fs = std::filesystem;
namespace {

// Beside the dump files lie other things: texts, what others converted, what editors leave, and what we
// wrote.
constexpr std::string_view kOtherEndings[] = {".txt", ".npy", ".bin", ".swp", ".json"};
constexpr std::string_view kMapping = "mapping.csv";

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(at, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

// hash -> full name, of every mapping.csv among the files.
std::unordered_map<std::string, std::string> ReadMappings(const TokenFiles& files, const Warn& warn) {
  std::unordered_map<std::string, std::string> names;
  for (const std::string& path : files.files) {
    if (NameOf(path) != kMapping) continue;
    const Result<FileRef> file = MappedFile::Open(path);
    if (!file) {
      warn(file.error().Message());
      continue;
    }
    const std::string folder = path.substr(0, path.size() - kMapping.size());
    ReadCsv(TextOf(*file), [&](std::span<const TableCell> cells) {
      if (cells.size() >= 2) names[folder + cells[0].text] = cells[1].text;
      return true;
    });
  }
  return names;
}

std::uint64_t SizeOf(const std::string& path) {
  std::error_code ignored;
  const std::uintmax_t size = fs::file_size(path, ignored);
  return ignored ? 0 : size;
}

// Of two files of one operator: a dump beats what shrinking left of another one, then the larger, then the
// first.
void Keep(GeOp op, GeToken& token, const Warn& warn) {
  const auto [row, is_new] = token.ops.try_emplace(op.name.op, op);
  if (is_new) return;
  GeOp& kept = row->second;
  const bool same_dump = kept.name.time == op.name.time && kept.shrunk != op.shrunk;
  if (kept.shrunk != op.shrunk) {
    if (kept.shrunk) std::swap(kept, op);
  } else if (SizeOf(op.path) > SizeOf(kept.path)) {
    std::swap(kept, op);
  }
  if (same_dump) return;
  warn(fmt::format("duplicated op name: {}. [{}, {}]. Will keep the larger one {}.", kept.name.op,
                   NameOf(op.path), NameOf(kept.path), NameOf(kept.path)));
}

Result<Done> ReadHeader(GeOp& op) {
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(op.path));
  if (op.shrunk) {
    VN_ASSIGN_OR_RETURN(const ShrunkCounts counts, CountShrunk(file));
    op.num_inputs = counts.inputs;
    op.num_outputs = counts.outputs;
  } else {
    VN_ASSIGN_OR_RETURN(op.dump, Inside(op.path, ParseGeDump(file->bytes())));
    op.num_inputs = op.dump.inputs.size();
    op.num_outputs = op.dump.outputs.size();
  }
  if (file->changed()) return Error{ErrorCode::kFileChanged, op.path, ""};
  return Done{};
}

Result<TensorEntry> ShrunkEntry(const FileRef& file, bool output) {
  VN_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ListZip(file));
  const std::string_view wanted = output ? "outputs" : "inputs";
  for (TensorEntry& entry : ListNpz(file, members)) {
    if (entry.info.name != wanted) continue;
    if (entry.info.damage) return *entry.info.damage;
    const Shape& shape = entry.info.shape;
    const bool is_empty = entry.info.num_elements == 0;  // [] without a second axis
    if (!is_empty && (shape.size() != 2 || shape[1] != 2)) {
      return Error{ErrorCode::kBadShape, file->path(),
                   fmt::format("{}: {} where rows of [min, max] should be", wanted, ShapeText(shape))};
    }
    return std::move(entry);
  }
  return Error{ErrorCode::kNotADump, file->path(), fmt::format("no array {}", wanted)};
}

// Which argument a file holds: the numbers between .INPUT. and the time, and then the time.
struct FxOrder {
  std::vector<std::uint64_t> numbers;
  std::string path;
  friend auto operator<=>(const FxOrder&, const FxOrder&) = default;
};

}  // namespace

std::optional<GeFileName> ParseGeFileName(std::string_view name) {
  const std::vector<std::string_view> parts = Split(name, '.');
  constexpr std::size_t kFewest = 5, kOfSplitExecution = 9;
  if (parts.size() < kFewest) return std::nullopt;
  const auto is_number = [](std::string_view part) { return NumberOf(part).has_value(); };
  const bool is_split = parts.size() == kOfSplitExecution && parts[kFewest] == "4" &&
                        std::all_of(parts.begin() + 2, parts.end(), is_number);
  GeFileName parsed;
  parsed.type = parts[0];
  if (is_split) {
    parsed.op = parts[1];
    parsed.time = parts[kFewest - 1];
    return parsed;
  }
  const std::size_t last = parts.size() - 3;
  for (std::size_t i = 1; i < last; ++i) parsed.op += (i > 1 ? "." : "") + std::string(parts[i]);
  parsed.time = parts.back();
  return parsed;
}

GeToken ReadGeToken(const TokenFiles& files, const Warn& warn) {
  GeToken token;
  const std::unordered_map<std::string, std::string> full_names = ReadMappings(files, warn);
  for (const std::string& path : files.files) {
    std::string_view name = NameOf(path);
    const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
    if (name == kMapping || name.starts_with('.') ||
        std::any_of(std::begin(kOtherEndings), std::end(kOtherEndings), ends))
      continue;
    if (name.ends_with(".csv")) {
      warn(fmt::format("{}: statistics of a dump, which are not compared", path));
      token.unreadable.push_back({std::string(name), path});
      continue;
    }
    GeOp op;
    op.path = path;
    op.shrunk = name.ends_with(kShrunkGe);
    if (op.shrunk) name.remove_suffix(kShrunkGe.size());
    const std::string plain_path = path.substr(0, path.size() - (op.shrunk ? kShrunkGe.size() : 0));
    const auto full = full_names.find(plain_path);
    std::optional<GeFileName> parsed = ParseGeFileName(full == full_names.end() ? name : full->second);
    if (!parsed) {
      warn(fmt::format("invalid file name: {}, should contain at least 4 '.'", path));
      token.unreadable.push_back({std::string(name), path});
      continue;
    }
    op.name = *std::move(parsed);
    Keep(std::move(op), token, warn);
  }
  return token;
}

void ReadHeaders(GeToken& token, int num_threads) {
  std::vector<GeOp*> ops;
  ops.reserve(token.ops.size());
  for (auto& [name, op] : token.ops) ops.push_back(&op);
  ThreadPool(NumThreads(num_threads)).ForEach(ops.size(), [&](std::size_t i) {
    if (Result<Done> read = ReadHeader(*ops[i]); !read) ops[i]->damage = std::move(read).error();
  });
}

Result<ShrunkCounts> CountShrunk(const FileRef& file) {
  VN_ASSIGN_OR_RETURN(const TensorEntry inputs, ShrunkEntry(file, false));
  VN_ASSIGN_OR_RETURN(const TensorEntry outputs, ShrunkEntry(file, true));
  return ShrunkCounts{static_cast<std::size_t>(inputs.info.num_elements / 2),
                      static_cast<std::size_t>(outputs.info.num_elements / 2)};
}

Result<TensorView> LoadShrunk(const FileRef& file, bool output, std::size_t index) {
  VN_ASSIGN_OR_RETURN(const TensorEntry entry, ShrunkEntry(file, output));
  VN_ASSIGN_OR_RETURN(TensorView view, LoadEntry(entry, file));
  if (2 * (index + 1) > view.num_elements) return Error{ErrorCode::kFileChanged, file->path(), ""};
  view.data += 2 * index * ItemBytes(view.dtype);
  view.shape = {2};
  view.num_elements = 2;
  return view;
}

FxToken ReadFxToken(const TokenFiles& files) {
  struct Found {
    std::vector<FxOrder> inputs, outputs;
  };
  std::map<std::string, Found> found;
  for (const std::string& path : files.files) {
    const std::string_view name = NameOf(path);
    constexpr std::string_view kInput = ".INPUT.", kOutput = ".OUTPUT.";
    std::size_t at = name.find(kInput);
    const bool is_input = at != std::string_view::npos;
    if (!is_input) at = name.find(kOutput);
    FxOrder order{{}, path};
    if (at != std::string_view::npos) {
      const std::vector<std::string_view> parts =
          Split(name.substr(at + (is_input ? kInput : kOutput).size()), '.');
      for (std::size_t i = 0; i + 2 < parts.size(); ++i)
        order.numbers.push_back(NumberOf(parts[i]).value_or(~std::uint64_t{0}));
    }
    Found& node = found[std::string(name.substr(0, at))];
    (is_input ? node.inputs : node.outputs).push_back(std::move(order));
  }
  FxToken token;
  for (auto& [name, node] : found) {
    FxNode& sorted = token[name];
    const auto put = [](std::vector<FxOrder>& from, std::vector<std::string>& to) {
      std::sort(from.begin(), from.end());
      for (FxOrder& order : from) {
        // A file that was being replaced by what shrinking leaves of it counts once.
        const std::string& path = order.path;
        if (IsShrunkFx(path) &&
            std::any_of(from.begin(), from.end(),
                        [&, plain = path.substr(0, path.size() - kShrunkFx.size()) +
                                    ".npy"](const FxOrder& other) { return other.path == plain; }))
          continue;
        to.push_back(path);
      }
    };
    put(node.inputs, sorted.inputs);
    put(node.outputs, sorted.outputs);
  }
  return token;
}

}  // namespace vernier::torchair
