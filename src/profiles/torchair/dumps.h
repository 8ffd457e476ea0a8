// The operators of one token on the GE side and the nodes of one token on the FX side: which files they have
// and how many tensors. No tensor is looked at.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/ge_dump.h"
#include "profiles/torchair/tree.h"
#include "vernier/result.h"

namespace vernier::torchair {

// What shrinking leaves of a dump file, behind the file's own name: the minimum and maximum of each tensor.
inline constexpr std::string_view kShrunkGe = "_min_max.npz", kShrunkFx = "_min_max.npy";

// <type>.<op>.<task>.<stream>.<time>, with four more parts for split execution.
struct GeFileName {
  std::string type, op, time;
};
std::optional<GeFileName> ParseGeFileName(std::string_view name);

// One operator of one token: a dump file, or what shrinking left of it.
struct GeOp {
  GeFileName name;
  std::string path;
  bool shrunk = false;
  // Set by ReadHeaders().
  GeDump dump;  // of a file that is not shrunk
  std::size_t num_inputs = 0, num_outputs = 0;
  std::optional<Error> damage;  // the file as a whole cannot be read

  std::size_t num_tensors(bool outputs) const { return outputs ? num_outputs : num_inputs; }
};

// Something that could not be compared.
struct Unreadable {
  std::string name, path;
};

struct GeToken {
  std::map<std::string, GeOp, std::less<>> ops;  // by name
  std::vector<Unreadable> unreadable;            // files whose names say nothing
};
// Of two files of one operator the larger stays; long names are looked up in mapping.csv.
GeToken ReadGeToken(const TokenFiles& files, const Warn& warn);
// Opens the files, on several threads.
void ReadHeaders(GeToken& token, int num_threads);

// How many tensors a shrunk dump file has.
struct ShrunkCounts {
  std::size_t inputs = 0, outputs = 0;
};
Result<ShrunkCounts> CountShrunk(const FileRef& file);
// The two numbers of one of them.
Result<TensorView> LoadShrunk(const FileRef& file, bool output, std::size_t index);

struct FxNode {
  std::vector<std::string> inputs, outputs;  // paths, by argument

  const std::vector<std::string>& files(bool is_output) const { return is_output ? outputs : inputs; }
};
using FxToken = std::map<std::string, FxNode, std::less<>>;  // by <node>-<target>
FxToken ReadFxToken(const TokenFiles& files);
inline bool IsShrunkFx(std::string_view path) { return path.ends_with(kShrunkFx); }

}  // namespace vernier::torchair
