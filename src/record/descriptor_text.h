// Records as dump.json has them. See docs/formats/msprobe_dump.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "record/sink.h"

namespace vernier {

// The description of a tensor of `field`. `sink` knows the names of what it has stored.
void AppendDescriptor(const Port& port, const Field& field, SummaryMode mode, const Sink& sink,
                      std::string& out);
// The value of a record.
void AppendValue(std::span<const Field> fields, bool whole, SummaryMode mode, const Sink& sink,
                 std::string& out);
// The fields of a value that AppendValue() made, without ports.
std::vector<Field> SplitValue(std::string_view value, bool whole);

}  // namespace vernier
