// The only names a pickle may refer to, and what each means to us.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "vernier/dtype.h"

namespace vernier {

enum class PickleRole : std::uint8_t {
  // Resolved while reading the pickle.
  kOpaque,         // a class or value whose instances hold nothing we look for
  kDict,           // called: a dict of its arguments' pairs
  kSequence,       // called: a list of its argument's items
  kFirstArgument,  // called: its first argument
  // Kept as calls, for the reader of tensors. The comments give the arguments.
  kStorageClass,      // named in a storage's persistent id
  kDtype,             // a value
  kTensor,            // storage, offset, sizes, strides, …
  kTensorV3,          // storage, offset, sizes, strides, requires_grad, hooks, dtype, …
  kTensorFromType,    // function, class, arguments, …
  kMetaTensor,        // dtype, sizes, …
  kUnreadableTensor,  // something we cannot give the elements of
  kObject,            // attributes in its state
};

struct PickleGlobal {
  std::string_view module, name;
  PickleRole role;
  std::optional<Dtype> dtype = std::nullopt;  // kStorageClass, kDtype; empty when it is none of ours
  std::uint8_t item_bytes = 0;                // kStorageClass
};

// Null when the name is not in the table.
const PickleGlobal* FindPickleGlobal(std::string_view module, std::string_view name);
// The class of storages that hold nothing but this dtype; null when torch has none.
const PickleGlobal* FindStorageClass(Dtype dtype);

}  // namespace vernier
