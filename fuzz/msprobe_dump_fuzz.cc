// Bytes of strangers as dump.json and debug.json: every row must be readable, whatever they say.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/mapped_file.h"
#include "profiles/msprobe/dump.h"
#include "profiles/msprobe/estimates.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace vernier;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  for (const auto kind : {msprobe::DumpKind::kDump, msprobe::DumpKind::kDebug}) {
    msprobe::DumpOptions options;
    options.kind = kind;
    const auto file = MappedFile::FromBytes(std::vector<std::byte>(bytes, bytes + size), "dump.json");
    const Result<msprobe::Dump> dump = msprobe::Dump::FromFile(file, options);
    if (!dump) continue;
    msprobe::Leaf before;
    TextArena arena;
    for (std::size_t i = 0; i < dump->rows().size(); ++i) {
      std::string text = dump->NameOf(i);
      const msprobe::Leaf leaf = dump->Read(dump->rows()[i], arena);
      text += leaf.dtype;
      text += leaf.shape;
      for (const Cell& value : leaf.statistics) AppendText(value, text);
      text += msprobe::EstimateFrom(leaf, leaf).problem;
      text += msprobe::EstimateFrom(before, leaf).problem;
      before = leaf;
    }
  }
  return 0;
}
