// Decodes the value behind one row of a dump. Shared inside the stage.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/json_cursor.h"
#include "profiles/msprobe/dump.h"

namespace vernier::msprobe {

// `name` is the row's name, or the end of it: some values are shown differently by their last component.
// REQUIRES: a value starts at `at`.
Leaf ReadLeaf(std::string_view text, std::size_t at, std::string_view name, TextArena& arena);
// The non-empty data_name of the value at `at`, or of the tensor that it wraps; empty when there is none.
std::string_view DataNameAt(std::string_view text, std::size_t at, std::string& buffer);

// "<class 'int'>": what Python calls the type of a value.
std::string_view ClassText(JsonKind kind);

inline constexpr std::string_view kP2pClass = "torch.distributed.P2POp";

}  // namespace vernier::msprobe
