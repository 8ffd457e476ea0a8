#include "record/entry.h"

#include <algorithm>

namespace vernier {

bool IsComplete(const Entry& entry) {
  for (const Field& field : entry.fields) {
    for (const Port& port : field.ports) {
      if (port.slot != nullptr && port.slot->sequence == 0 && !port.slot->filled) return false;
    }
  }
  return true;
}

std::uint64_t LastSequence(const Entry& entry) {
  std::uint64_t last = 0;
  for (const Field& field : entry.fields) {
    for (const Port& port : field.ports) {
      if (port.slot != nullptr) last = std::max(last, port.slot->sequence);
    }
  }
  return last;
}

}  // namespace vernier
