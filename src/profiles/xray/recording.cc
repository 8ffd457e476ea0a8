#include "profiles/xray/recording.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <unordered_map>

#include "core/mapped_file.h"
#include "core/paths.h"
#include "format/module_key.h"

namespace vernier::xray {
namespace {

std::optional<std::int64_t> Decimal(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, number);
  if (!IsDecimal(text) || problem != std::errc() || stop != end) return std::nullopt;
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

}  // namespace

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
