// One dump.json or debug.json: names of its rows, and on demand what each row says.
//
// Built for files of hundreds of MB: an index of 16 bytes a row stays in memory, everything else is read
// again from the mapped file when a row is shown.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "vernier/cell.h"
#include "vernier/result.h"
#include "vernier/tensor.h"

namespace vernier::msprobe {

enum class DumpKind : std::uint8_t { kDump, kDebug };  // dump.json, debug.json

// In the order in which the rows of one record are listed.
enum class PortState : std::uint8_t { kInput, kParameters, kOutput, kParametersGrad };
std::string_view Name(PortState state);  // "input", …

// What a row says. Views live as long as the dump and the arena given to Dump::Read.
struct Leaf {
  std::string_view dtype, shape, requires_grad, md5, data_name;
  std::array<Cell, 4> statistics;  // max, min, mean, l2norm
  std::string_view p2p_op = "None", p2p_peer = "None";
  bool has_md5 = false;             // else `md5` is the checksum of a value's text, as tables show it
  std::string_view sketch, values;  // base64, as recorded; empty: none
  std::uint64_t sketch_bad = 0;
};
// What stands in place of a bench row that does not exist.
const Leaf& NoLeaf();

struct Row {
  std::uint64_t value_at : 40;     // where its value starts in the file
  std::uint64_t name_offset : 24;  // how far behind that its data_name starts; 0: not noted
  std::uint32_t record;
  std::uint32_t suffix : 27;  // index of what follows the record's name
  std::uint32_t state : 2;
  std::uint32_t named_by_file : 1;  // the name comes from data_name
  std::uint32_t maybe_shared : 1;   // while reading: data_name is not named after this record
  std::uint32_t bad : 1;            // stands for a whole record that cannot be read
};

static_assert(sizeof(Row) == 16);

struct Record {
  std::string_view name;
  std::uint32_t first_row = 0, num_rows = 0;
};

struct DumpOptions {
  DumpKind kind = DumpKind::kDump;
  bool check_values = true;      // the text checks; debug.json has none
  bool drop_undirected = false;  // records named neither forward, backward nor parameters_grad give no rows
};

// Read-only once opened. Thread-compatible: const methods may run concurrently.
class Dump {
 public:
  // Fails when the file cannot be read or is no JSON. What is wrong inside is told by the members below, in
  // the order in which they are to be asked.
  static Result<Dump> Open(const std::filesystem::path& path, const DumpOptions& options);
  static Result<Dump> FromFile(FileRef file, const DumpOptions& options);
  Dump(Dump&&) = default;
  Dump& operator=(Dump&&) = default;

  const std::filesystem::path& path() const { return path_; }
  std::string_view task() const { return task_; }
  std::string_view level() const { return level_; }
  const std::optional<std::string>& framework() const { return framework_; }
  bool has_data() const { return has_data_; }
  bool data_is_object() const { return data_is_object_; }
  bool has_md5() const { return has_md5_; }
  bool has_sketches() const { return has_sketches_; }  // or tensors kept whole in their place
  // The file ends in the middle of "data", as one does whose writer was killed: the whole records before that
  // are here.
  bool torn() const { return torn_; }
  // Empty: all texts, shapes and flags are fine.
  const std::string& check_failure() const { return check_failure_; }
  // The first record that is nested too deeply to be read; empty: none.
  const std::string& too_deep() const { return too_deep_; }

  const std::vector<Record>& records() const { return records_; }
  const std::vector<Row>& rows() const { return rows_; }
  std::uint64_t num_bytes() const;
  void AppendName(const Row& row, std::string& out) const;
  std::string NameOf(std::size_t row) const;
  Leaf Read(const Row& row, TextArena& arena) const;
  // Why a record could not be read; empty for one that could.
  std::string_view ProblemOf(std::uint32_t record) const;
  // Lets go of the file's pages between two of its rows: they are fetched again when needed.
  void ReleasePages(std::size_t first_row, std::size_t last_row) const;

 private:
  friend class DumpReader;
  Dump() = default;

  std::filesystem::path path_;
  FileRef file_;
  std::string_view text_;
  std::string task_, level_, check_failure_, too_deep_;
  std::optional<std::string> framework_;
  bool has_data_ = false, data_is_object_ = true, has_md5_ = false, torn_ = false;
  bool has_sketches_ = false;
  std::vector<Record> records_;
  std::vector<Row> rows_;
  std::deque<std::string> suffixes_;
  TextArena names_;
  std::unordered_map<std::uint32_t, std::string> problems_;
};

// Texts that a spreadsheet might run: they start with + - = % @ (or their full-width forms), or have ';'
// before one.
bool IsDangerous(std::string_view text);

}  // namespace vernier::msprobe
