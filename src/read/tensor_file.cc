#include "read/tensor_file_internal.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string>
#include <vector>

#include "core/mapped_file.h"
#include "format/atb_bin.h"
#include "format/ge_dump.h"
#include "format/hdf5.h"
#include "format/npy.h"
#include "format/npz.h"
#include "format/pt.h"
#include "format/safetensors.h"
#include "format/zip.h"

namespace vernier {
namespace {

// NumPy and PyTorch both write zip archives; what is in them tells whose it is.
Result<Entries> ListZipTensors(const FileRef& file) {
  VN_ASSIGN_OR_RETURN(const std::vector<ZipMember> members, ListZip(file));
  if (LooksLikePtZip(members)) return ListPtZip(file, members);
  if (members.empty() || HoldsNpy(members)) return ListNpz(file, members);
  return Error{ErrorCode::kNotADump, file->path(), "a zip archive without data.pkl and .npy members"};
}

struct Format {
  std::string_view name;
  bool (*looks_like)(std::span<const std::byte> bytes);
  Result<Entries> (*list)(const FileRef& file);
};

// The first that matches. Those whose magic is at the very beginning come first: HDF5's may lie further
// inside.
constexpr Format kFormats[] = {
    {"npy", LooksLikeNpy, ListNpy},
    {"zip", LooksLikeZip, ListZipTensors},
    {"pt_legacy", LooksLikePtLegacy, ListPt},
    {"hdf5", LooksLikeHdf5, ListHdf5},
    {"safetensors", LooksLikeSafetensors, ListSafetensors},
    {"ge_dump", LooksLikeGeDump, ListGeDump},
    {"atb", LooksLikeAtbBin, ListAtbBin},
};

constexpr std::string_view kTensorExtensions[] = {".npy",  ".npz",         ".pt", ".pth",
                                                  ".ckpt", ".safetensors", ".h5", ".hdf5"};
// Endings that are dropped from names, but promise nothing.
constexpr std::string_view kOtherTensorExtensions[] = {".safetensors.index.json", ".bin.index.json", ".bin"};

constexpr std::string_view kNoTensorExtensions[] = {
    ".json",  ".jsonl", ".txt", ".csv", ".tsv",  ".md",  ".log",  ".yaml", ".yml", ".toml", ".cfg",
    ".ini",   ".py",    ".pyc", ".sh",  ".html", ".xml", ".xlsx", ".pdf",  ".png", ".jpg",  ".svg",
    ".ipynb", ".zip",   ".whl", ".gz",  ".tar",  ".so",  ".o",    ".cc",   ".cpp", ".c",    ".h"};

bool EndsWith(std::string_view name, std::string_view ending) {
  if (name.size() <= ending.size()) return false;
  return std::equal(ending.begin(), ending.end(), name.end() - static_cast<std::ptrdiff_t>(ending.size()),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

template <class Table>
std::string_view EndingOf(std::string_view name, const Table& table) {
  const auto row = std::find_if(std::begin(table), std::end(table),
                                [&](std::string_view ending) { return EndsWith(name, ending); });
  return row == std::end(table) ? std::string_view() : *row;
}

}  // namespace

Result<TensorFile> ListTensorFile(const FileRef& file) {
  for (const Format& format : kFormats) {
    if (!format.looks_like(file->bytes())) continue;
    VN_ASSIGN_OR_RETURN(Entries entries, format.list(file));
    return TensorFile{format.name, std::move(entries)};
  }
  const std::string path = file->path();
  if (!PromisesTensors(path)) return Error{ErrorCode::kNotADump, path, "unrecognized file format"};
  if (file->bytes().empty()) return Error{ErrorCode::kTruncated, path, "it is empty"};
  return Error{ErrorCode::kBadMagic, path, "unrecognized file format"};
}

bool PromisesTensors(std::string_view file_name) { return !EndingOf(file_name, kTensorExtensions).empty(); }

bool PromisesNoTensors(std::string_view file_name) {
  return !EndingOf(file_name, kNoTensorExtensions).empty();
}

std::string_view WithoutTensorExtension(std::string_view file_name) {
  std::string_view ending = EndingOf(file_name, kTensorExtensions);
  if (ending.empty()) ending = EndingOf(file_name, kOtherTensorExtensions);
  return file_name.substr(0, file_name.size() - ending.size());
}

}  // namespace vernier
