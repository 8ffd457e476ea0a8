// A pickle read as data. Nothing it asks for is executed: globals are looked up in a fixed table, calls of
// them are kept as nodes that say what would have been called with which arguments, everything else is an
// error that names it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/pickle_globals.h"
#include "vernier/result.h"

namespace vernier {

enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kReal,
  kText,
  kBytes,
  kGlobal,
  kOpaque,  // a value that we have no use for, e.g. an integer of more than 64 bits
  kList,    // the kinds from here on are objects: list, set
  kTuple,
  kDict,        // keys and values in turn
  kCall,        // of a global with its items as arguments
  kPersistent,  // a reference to something outside of the pickle, with the items of its tuple
};

// Small enough to be copied everywhere; what does not fit is an index into PickleTree::objects.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  std::uint32_t object = 0;  // of the kinds from kList on; of kText and kBytes their length
  union {
    std::int64_t integer = 0;  // kInt, kBool
    double real;
    const char* characters;  // kText, kBytes: in the pickle's bytes
    const PickleGlobal* global;
  };
};

// REQUIRES: kText or kBytes
inline std::string_view TextOf(const PickleValue& value) { return {value.characters, value.object}; }

inline bool IsObject(const PickleValue& value) { return value.kind >= PickleKind::kList; }

struct PickleObject {
  std::vector<PickleValue> items;
  const PickleGlobal* callee = nullptr;  // kCall
  PickleValue state;                     // kCall: what the object's attributes would be set to
};

// May hold an object several times, and inside itself.
struct PickleTree {
  std::vector<PickleObject> objects;
  std::vector<PickleValue> persistent;  // in the order they were met
  PickleValue root;
  std::size_t num_bytes = 0;  // what the pickle took; another one may follow
};

// `bytes` must outlive the tree. Time and memory are bounded by a multiple of its size, and absolutely.
Result<PickleTree> ParsePickle(std::span<const std::byte> bytes);

}  // namespace vernier
