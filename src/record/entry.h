// One entry of the document while it is put together, before it becomes text in the file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "record/document.h"
#include "record/measured.h"
#include "record/tensor_files.h"

namespace vernier {

struct Entry;

// A tensor whose numbers are still to come.
struct Slot {
  Entry* entry = nullptr;  // null: nobody waits for it
  bool copy_follows = false, wants_file = false, is_scalar = false;
  std::string stem;  // of its file
  bool has_numbers = false, filled = false;
  Measured measured;
  StoredFile* file = nullptr;
  std::uint64_t sequence = 0;  // of CudaMeter
};

// A place in a field's text where a slot's numbers go.
struct Hole {
  std::size_t offset = 0;
  int depth = 0;
  enum Part : std::uint8_t { kSummary, kTail } part = kSummary;
  std::shared_ptr<Slot> slot;
};

struct Field {
  std::string key;   // as written between the quotes; empty in an entry that is one value
  std::string text;  // its value, indented
  std::vector<Hole> holes;
  std::vector<StoredFile*> files;  // that it names
};

struct Entry {
  static constexpr std::size_t kNotOpen = ~std::size_t{0};

  std::string name;
  std::uint64_t order = 0;  // place in the document
  bool whole = false;       // one value instead of fields
  bool finished = false, keep = false;
  bool in_memory = true;   // `fields` are up to date
  bool committed = false;  // `range` is
  bool has_stack = false;
  std::size_t open_at = kNotOpen;  // its place in the list of those to be committed
  std::vector<Field> fields;
  RecordRange range;  // written by whoever commits
};

// How a document describes what was measured. `depth` is that of the descriptor's own line.
void AppendSummary(const Measured& measured, SummaryMode mode, int depth, std::string& out);
// data_name and md5, which end a descriptor.
void AppendTail(const Measured& measured, const StoredFile* file, SummaryMode mode, int depth,
                std::string& out);

// All slots it waits for are filled, but for those that a device fills.
bool IsComplete(const Entry& entry);
// Of the slots that a device fills, the last; 0: none.
std::uint64_t LastSequence(const Entry& entry);
// The value of the entry; slots that were never filled are null.
void AppendValue(const Entry& entry, SummaryMode mode, std::string& out);
// The fields of a value that AppendValue() made, without files and slots.
std::vector<Field> SplitValue(std::string_view value, bool whole);

// What stands before the path of a tensor in its file's name. `field`: the top-level field, as written.
// Sets `skip_first` when the path's first step is no part of the name.
std::string FileStem(const Entry& entry, std::string_view field, bool& skip_first);

}  // namespace vernier
