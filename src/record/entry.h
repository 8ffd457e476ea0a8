// One record while it is put together, before a sink has it whole.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "record/measured.h"

namespace vernier {

struct Entry;

// Elements that a sink keeps: each sink has a kind of its own.
struct Stored {
  std::atomic<bool> gone{false};  // replaced or removed since
};

// A tensor whose numbers are still to come.
struct Slot {
  Entry* entry = nullptr;  // null: nobody waits for it
  bool copy_follows = false, wants_file = false;
  std::string field, path;  // in the entry
  bool has_numbers = false, filled = false;
  Measured measured;
  std::shared_ptr<const Sketch> sketch;  // null: none
  Stored* stored = nullptr;
  std::uint64_t sequence = 0;  // of DeviceMeter
  std::optional<Dtype> dtype;
  std::uint64_t num_elements = 0;
  bool is_scalar = false;
  // The numbers and `stored` come from the writer's threads: nobody's to look at before it was drained, or on
  // its threads by a job pushed later.
  bool from_writer = false;
  std::uint64_t num_bytes = 0;
  Stored* decided = nullptr;  // `stored` as it was decided: for tensors that are the same; of Sink::Keep()

  // Of the elements; numbers that were there before stay.
  void TakeNumbers(const Measured& found, const std::shared_ptr<const Sketch>& found_sketch) {
    if (!has_numbers) {
      measured = found;
      sketch = found_sketch;
    }
    if (!measured.has_digest) {
      measured.has_digest = found.has_digest;
      measured.digest = found.digest;
    }
    has_numbers = true;
  }
};

// Which memory a tensor is a view of, so that an output is known again where it is an input.
struct Identity {
  std::uint64_t storage = 0;  // its number, as the program gave it; 0: not known
  std::int64_t version = 0;   // grows with every change of that storage
  std::int64_t offset = 0;    // in elements
};

// A tensor of a record.
struct Port {
  std::size_t at = 0;  // where its description belongs in the field's text
  int depth = 0;       // of the line it starts on
  std::string path;    // from the field to it: "0", "1.mask"
  std::string extras;  // compact JSON that describes it differently, or empty
  std::optional<Dtype> dtype;
  std::uint32_t flags = 0;  // TensorFlags
  std::span<const std::int64_t> shape(std::span<const std::int64_t> sizes) const {
    return sizes.subspan(first_size, num_axes);
  }
  std::span<const std::int64_t> strides(std::span<const std::int64_t> sizes) const {
    return sizes.subspan(first_size + num_axes, num_axes);
  }
  std::size_t first_size = 0, num_axes = 0;  // in Field::sizes
  Identity identity;
  std::shared_ptr<Slot> slot;  // null: the numbers are here
  Measured measured;
  std::shared_ptr<const Sketch> sketch;  // null: none
  Stored* stored = nullptr;              // null: nothing is kept of its elements

  bool Has(TensorFlags flag) const { return (flags & flag) != 0; }
  // All null for a slot that was never filled.
  const Measured& numbers() const {
    static const Measured nothing = NothingMeasured();
    return slot == nullptr ? measured : slot->has_numbers ? slot->measured : nothing;
  }
  const Sketch* sketch_numbers() const { return (slot == nullptr ? sketch : slot->sketch).get(); }
  const Stored* elements() const { return slot == nullptr ? stored : slot->stored; }
};

struct Field {
  std::string key;   // as written between the quotes; empty in an entry that is one value
  std::string text;  // its value as JSON, indented, without the tensors
  std::vector<Port> ports;
  std::vector<std::int64_t> sizes;  // of the ports: shape, strides, shape, strides, ...
  std::vector<Stored*> stored;      // that it names, but for those of slots
  bool from_sink = false;           // came back from the sink, which has written its tensors into the text
};

// Where a sink has put a record. For the sink alone.
struct RecordRange {
  std::uint64_t offset = 0, size = 0;
};

struct Entry {
  static constexpr std::size_t kNotOpen = ~std::size_t{0};

  std::string name;
  std::uint64_t order = 0;  // place among the others
  bool whole = false;       // one value instead of fields
  bool finished = false, keep = false;
  bool repeated = false;   // its call was made before: see kRepeated
  bool in_memory = true;   // `fields` are up to date
  bool committed = false;  // the sink has it, or will
  bool has_stack = false;
  std::size_t open_at = kNotOpen;  // its place in the list of those to be committed
  std::vector<Field> fields;
  RecordRange range;  // written by whoever commits
};

}  // namespace vernier
