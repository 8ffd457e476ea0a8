// One file of tensors, told by its content.
#pragma once

#include <string_view>

#include "format/entry.h"
#include "vernier/result.h"

namespace vernier {

struct TensorFile {
  std::string_view format;  // "npy", "zip", "safetensors", …
  Entries entries;
};

// kNotADump, or kBadMagic when its name promises tensors: the content is of no format we read. Any other
// error: it is one of ours, and damaged.
Result<TensorFile> ListTensorFile(const FileRef& file);

// True for .npy, .pt and the like: a file of that name is expected to hold tensors, and its absence from the
// index must not go unnoticed.
bool PromisesTensors(std::string_view file_name);

// True for text, pictures and the like, which need not be opened to know that they hold no tensors.
bool PromisesNoTensors(std::string_view file_name);

// Without the ending, if it is one that files of tensors have: "x.1" stays "x.1".
std::string_view WithoutTensorExtension(std::string_view file_name);

}  // namespace vernier
