// Compact JSON -> JSON as Python's json module writes it with indent=1, which dump.json and its neighbours
// are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/result.h"

namespace vernier {

// One step from a container to a value in it.
struct PathPart {
  std::string_view key;     // as written between the quotes; only of objects
  std::int64_t index = -1;  // in a list; -1: `key` counts
};

// Compact JSON in which the byte 0x01 stands for a tensor -> indented JSON. Numbers and texts are copied as
// they are written. Not thread-safe.
class JsonIndenter {
 public:
  // Writes what stands for a tensor. `depth` is that of the line it starts on; `extras` is the object that
  // followed the byte, or empty.
  class TensorWriter {
   public:
    virtual ~TensorWriter() = default;
    virtual Result<Done> WriteTensor(std::string_view extras, int depth, std::string& out) = 0;
  };

  // `tensors` may be null when `text` has none.
  JsonIndenter(std::string_view text, TensorWriter* tensors) : text_(text), tensors_(tensors) {}

  // The next value, on a line that is indented by `depth`.
  Result<Done> Value(int depth, std::string& out);
  // Calls fn(raw key) for each member of the object that comes next; fn must take its value and gives a
  // Result<Done>.
  template <class Fn>
  Result<Done> Members(Fn&& fn) {
    if (!Take('{')) return Unexpected("an object");
    if (Take('}')) return Done{};
    do {
      std::string_view key;
      VN_RETURN_IF_ERROR(Key(key));
      VN_RETURN_IF_ERROR(fn(key));
    } while (Take(','));
    return Take('}') ? Result<Done>(Done{}) : Unexpected("',' or '}'");
  }
  bool AtEnd();

  // Where the value that is being written lies, from the outermost container that Value() was called for.
  const std::vector<PathPart>& path() const { return path_; }
  // The text of the value that comes next, as it is.
  Result<std::string_view> RawValue();

 private:
  void SkipBlanks();
  bool Take(char c);
  Result<Done> Key(std::string_view& key);
  Result<Done> Container(char open, int depth, std::string& out);
  Result<Done> Text(std::string_view& raw);
  Result<Done> Word(std::string_view& word);
  Error Unexpected(std::string_view wanted) const;

  std::string_view text_;
  TensorWriter* tensors_;
  std::size_t at_ = 0;
  std::vector<PathPart> path_;
};

}  // namespace vernier
