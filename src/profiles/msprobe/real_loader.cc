// The two tensors behind a row of real data.
#include <cstring>

#include <fmt/format.h>

#include "profiles/msprobe/table_builder.h"
#include "vernier/read.h"

namespace vernier::msprobe {
namespace {

// Operators whose output is only valid up to a row that one of their inputs tells (current generation).
struct PartlyValid {
  std::string_view api, length_key;
};
constexpr PartlyValid kPartlyValid[] = {{"npu_grouped_matmul", "group_list"},
                                        {"npu_dequant_swiglu_quant", "group_index"}};

std::string_view SuffixOf(const Dump& dump, bool may_be_numpy) {
  return may_be_numpy && dump.framework() == "mindspore" ? ".npy" : ".pt";
}

void DropUnitAxes(TensorView& tensor) { std::erase(tensor.shape, 1); }

}  // namespace

RealLoader::RealLoader(const TableBuilder& builder)
    : builder_(builder),
      npu_folder_(builder.job().npu_json.parent_path() / "dump_tensor_data" / ""),
      bench_folder_(builder.job().bench_json.parent_path() / "dump_tensor_data" / ""),
      npu_suffix_(SuffixOf(builder.dumps().npu, builder.profile().verdict_per_record)),
      bench_suffix_(SuffixOf(builder.dumps().bench, builder.profile().verdict_per_record)) {
  if (builder.profile().verdict_per_record) FindValidLengths();
}

Result<TensorView> RealLoader::LoadSide(const std::string& folder, std::string_view name,
                                        std::string_view suffix) const {
  // A name is a file beside its dump, never a path to somewhere else.
  if (!name.ends_with(suffix) || name.find('/') != std::string_view::npos) {
    return Error{ErrorCode::kUnsupported, std::string(name), "not a data file of this dump"};
  }
  VN_ASSIGN_OR_RETURN(TensorView tensor, LoadTensorFile(folder + std::string(name)));
  if (builder_.profile().drops_unit_axes) DropUnitAxes(tensor);
  return tensor;
}

Result<LoadedPair> RealLoader::Load(std::size_t index, RealOutcome& outcome) const {
  outcome.read = std::make_unique<ReadRow>();
  outcome.read->row = builder_.Read(index, outcome.read->arena);
  const ResultRow& row = outcome.read->row;
  const auto stop = [&](RealState state) -> Result<LoadedPair> {
    outcome.state = state;
    return Error{ErrorCode::kNoPair, std::string(row.npu_name), "nothing to measure"};
  };
  if (row.npu.data_name == "-1" || row.bad_record) return stop(RealState::kNoNpuFile);
  if (row.bench.data_name == "-1") return stop(RealState::kNoBenchFile);
  if (!row.matched) return stop(RealState::kUnmatched);
  Result<TensorView> npu = LoadSide(npu_folder_, row.npu.data_name, npu_suffix_);
  Result<TensorView> bench = LoadSide(bench_folder_, row.bench.data_name, bench_suffix_);
  if (!npu || !bench) return stop(RealState::kReadFailed);
  if (const auto length = valid_length_.find(row.record); length != valid_length_.end()) {
    if (row.npu_name.find("output") != std::string_view::npos) ClearBehind(length->second, *npu);
  }
  outcome.npu = npu->dtype;
  outcome.bench = bench->dtype;
  outcome.state = StateOf(builder_.profile(), *npu, *bench);
  if (outcome.state != RealState::kScalar && outcome.state != RealState::kTensor) return stop(outcome.state);
  return LoadedPair{std::move(*npu), std::move(*bench)};
}

// Finds, for each record of such an operator, how many rows of its outputs are valid.
void RealLoader::FindValidLengths() {
  const Dump& npu = builder_.dumps().npu;
  for (std::uint32_t record = 0; record < npu.records().size(); ++record) {
    for (const PartlyValid& entry : kPartlyValid) {
      if (npu.records()[record].name.find(entry.api) == std::string_view::npos) continue;
      if (const auto length = ValidLength(npu.records()[record], entry.length_key)) {
        valid_length_[record] = *length;
      } else {
        warnings_.push_back(fmt::format("[{}] Valid_len handler returned None.", entry.api));
      }
    }
  }
}

std::optional<std::uint64_t> RealLoader::ValidLength(const Record& record, std::string_view key) {
  const Dump& npu = builder_.dumps().npu;
  const std::string_view api = key == kPartlyValid[0].length_key ? kPartlyValid[0].api : kPartlyValid[1].api;
  for (std::uint32_t i = record.first_row; i < record.first_row + record.num_rows; ++i) {
    if (!npu.NameOf(i).ends_with('.' + std::string(key))) continue;
    TextArena arena;
    const Leaf leaf = npu.Read(npu.rows()[i], arena);
    const Result<TensorView> tensor = LoadSide(npu_folder_, leaf.data_name, npu_suffix_);
    if (!tensor) return std::nullopt;
    const DtypeClass kind = Class(tensor->dtype);
    if (kind != DtypeClass::kSigned && kind != DtypeClass::kUnsigned && kind != DtypeClass::kBool) {
      warnings_.push_back(fmt::format("[{}] Extract valid_len from '{}' failed: unsupported dtype: torch.{}",
                                      api, key, vernier::Name(tensor->dtype)));
      return std::nullopt;
    }
    const Result<TensorStats> stats = MeasureTensor(*tensor, {});
    if (!stats || stats->finite_sum < 0) return std::nullopt;
    return static_cast<std::uint64_t>(stats->finite_sum);
  }
  return std::nullopt;
}

void RealLoader::ClearBehind(std::uint64_t length, TensorView& tensor) {
  if (tensor.shape.empty() || tensor.num_elements == 0) return;
  const auto rows = static_cast<std::uint64_t>(tensor.shape[0]);
  if (length >= rows) return;
  const std::size_t keep = static_cast<std::size_t>(tensor.num_bytes() / rows * length);
  auto copy = std::make_shared<std::vector<std::byte>>(tensor.data, tensor.data + tensor.num_bytes());
  std::memset(copy->data() + keep, 0, copy->size() - keep);
  tensor.data = copy->data();
  tensor.owner = std::move(copy);
  tensor.file = nullptr;
}

}  // namespace vernier::msprobe
