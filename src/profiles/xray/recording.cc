#include "profiles/xray/recording.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <unordered_map>

#include "core/mapped_file.h"
#include "core/paths.h"

namespace vernier::xray {
namespace {

constexpr std::string_view kCategories[] = {"forward_params", "forward_input",   "forward_output",
                                            "backward_input", "backward_output", "params_grad"};

std::optional<std::int64_t> Decimal(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  if (text.empty() || text.front() == '-' || problem != std::errc() || stop != end) return std::nullopt;
  return number;
}

// "globalrank-3_localrank-1.h5" -> 3
std::int64_t RankOfName(const std::string& path) {
  constexpr std::string_view kStart = "globalrank-";
  const std::string name = std::filesystem::path(path).filename().string();
  if (!name.starts_with(kStart)) return 0;
  const std::string_view rest = std::string_view(name).substr(kStart.size());
  return Decimal(rest.substr(0, rest.find_first_not_of("0123456789"))).value_or(0);
}

// The part of a dotted text before its last part, and that part.
std::string_view TakeLast(std::string_view& text) {
  const std::size_t dot = text.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? text : text.substr(dot + 1);
  text = dot == std::string_view::npos ? std::string_view() : text.substr(0, dot);
  return last;
}

}  // namespace

KeyParts SplitKey(std::string_view key) {
  std::string_view before = key, part;
  while (!before.empty()) {
    part = TakeLast(before);
    if (std::find(std::begin(kCategories), std::end(kCategories), part) != std::end(kCategories)) break;
    part = {};
  }
  KeyParts parts;
  parts.path = key;
  if (part.empty()) return parts;
  parts.category = part;
  const auto end = static_cast<std::size_t>(part.data() - key.data()) + part.size();
  parts.index = end < key.size() ? key.substr(end + 1) : std::string_view();
  std::string_view last = TakeLast(before);
  if (Decimal(last)) {
    parts.call = last;
    last = TakeLast(before);
  }
  parts.class_name = last;
  parts.path = before;
  return parts;
}

bool IsHdf5File(const std::string& path) {
  const Result<FileRef> file = MappedFile::Open(path);
  return file && LooksLikeHdf5((*file)->bytes());
}

Result<Recording> Recording::Open(const std::string& path, int num_threads) {
  if (!Exists(path)) return MissingPath(path);
  VN_ASSIGN_OR_RETURN(const FileRef file, MappedFile::Open(path));
  if (!LooksLikeHdf5(file->bytes())) return Error{ErrorCode::kBadArgument, path, "not an HDF5 file"};
  VN_ASSIGN_OR_RETURN(Dump dump, Dump::Open(path, {num_threads}));
  VN_ASSIGN_OR_RETURN(std::vector<Hdf5Object> objects, ListHdf5Attributes(file));
  Recording recording{std::move(dump), {}, RankOfName(path), {}, {}};
  std::unordered_map<std::string_view, Hdf5Object*> by_name;
  for (Hdf5Object& object : objects) by_name.emplace(object.name, &object);
  if (!objects.empty()) {
    const Hdf5Object& root = objects.front();
    if (const std::optional<double> rank = root.Number("global_rank"))
      recording.rank = static_cast<std::int64_t>(*rank);
    const Hdf5Value* const version = root.Find("vernier_version");
    if (const auto* const text = version ? std::get_if<std::string>(version) : nullptr)
      recording.version = *text;
  }
  const auto tensors = recording.dump.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string_view name = tensors[i].name;
    const std::size_t slash = name.find('/');
    const auto step = slash == std::string_view::npos ? std::nullopt : Decimal(name.substr(0, slash));
    recording.items.push_back({step, step ? name.substr(slash + 1) : name, i});
  }
  std::stable_sort(recording.items.begin(), recording.items.end(), [](const Item& a, const Item& b) {
    return a.step.has_value() != b.step.has_value() ? a.step.has_value() : a.step < b.step;
  });
  for (const Item& item : recording.items) {
    const auto found = by_name.find(recording.info(item).name);
    recording.objects.push_back(found == by_name.end() ? Hdf5Object{} : std::move(*found->second));
  }
  return recording;
}

}  // namespace vernier::xray
