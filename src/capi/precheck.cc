// Outputs of one API on a device and on the bench -> rows and verdicts of the pre-check.
#include <cstring>
#include <memory>
#include <optional>

#include "capi/c_api_internal.h"
#include "core/json_cursor.h"
#include "core/text.h"
#include "precheck/call.h"
#include "precheck/rules.h"

struct VnPrecheck {
  vernier::precheck::Rules rules;
  std::unique_ptr<vernier::precheck::CheckedCall> call;
  std::string json;  // of the last VnPrecheckFinish
};

namespace vernier {
namespace {

using precheck::CheckedCall;
using precheck::Detail;
using precheck::DetailsRow;
using precheck::Direction;
using precheck::PairOfTensors;

// The settings of VnPrecheckOpen, read member by member.
class SettingsReader {
 public:
  explicit SettingsReader(std::string_view json) : text_(json), cursor_(json) {}

  Result<Done> Read() {
    Result<Done> result = Done{};
    cursor_.ForEachMember([&](std::string_view key, bool) {
      if (Result<Done> taken = Take(key); !taken) {
        if (result) result = taken.error();
        cursor_.Stop();
      }
    });
    if (!result) return result;
    if (!cursor_.ok()) return Error{ErrorCode::kBadArgument, "settings", cursor_.problem()};
    return Done{};
  }

  precheck::JudgeSettings settings;
  int precision = 14;
  bool explains = false;
  std::optional<std::string_view> rules;

 private:
  template <class Choice>
  Result<Done> TakeChoice(const char* key, std::span<const std::string_view> names, Choice& choice) {
    VN_ASSIGN_OR_RETURN(const std::size_t chosen, Choose(key, cursor_.TakeString(buffer_), names));
    choice = static_cast<Choice>(chosen);
    return Done{};
  }
  Result<Done> TakeInt(const char* key, int most, int& value) {
    const double number = cursor_.TakeNumber();
    if (!(number >= 0 && number <= most)) return BadArgument(key, "expected 0 to " + std::to_string(most));
    value = static_cast<int>(number);
    return Done{};
  }

  Result<Done> Take(std::string_view key) {
    constexpr int kMaxDecimals = 20, kMaxThreads = 4096;
    if (key == "policy") return TakeChoice("policy", precheck::kPolicyNames, settings.policy);
    if (key == "thresholds") return TakeChoice("thresholds", precheck::kThresholdNames, settings.thresholds);
    if (key == "precision") return TakeInt("precision", kMaxDecimals, precision);
    if (key == "threads") return TakeInt("threads", kMaxThreads, settings.num_threads);
    if (key == "explain") {
      explains = cursor_.TakeBool();
    } else if (key == "quantised") {
      cursor_.ForEachElement([&] { settings.quantised.emplace_back(cursor_.TakeString(buffer_)); });
    } else if (key == "rules") {
      const std::size_t begin = cursor_.Peek() == JsonKind::kBad ? 0 : cursor_.position();
      cursor_.Skip();
      rules = text_.substr(begin, cursor_.position() - begin);
    } else {
      return BadArgument(std::string(key), "unknown setting");
    }
    return Done{};
  }

  std::string_view text_;
  JsonCursor cursor_;
  std::string buffer_;
};

Result<std::unique_ptr<VnPrecheck>> OpenPrecheck(const char* settings_json) {
  SettingsReader reader(settings_json);
  reader.settings.quantised = precheck::Rules::Shipped().List("quantised");
  VN_RETURN_IF_ERROR(reader.Read());
  auto opened = std::make_unique<VnPrecheck>();
  if (reader.rules) {
    VN_ASSIGN_OR_RETURN(opened->rules, precheck::Rules::With(*reader.rules, "rules"));
  } else {
    opened->rules = precheck::Rules::Shipped();
  }
  reader.settings.rules = &opened->rules;
  opened->call = std::make_unique<CheckedCall>(std::move(reader.settings), reader.precision, reader.explains);
  return opened;
}

Result<PairOfTensors> PairOf(const VnCheckedPair* given) {
  if (given == nullptr) return BadArgument("pair", "is NULL");
  VnCheckedPair complete{};
  std::memcpy(&complete, given, std::min(given->struct_bytes, sizeof complete));
  PairOfTensors pair;
  VN_ASSIGN_OR_RETURN(pair.bench, ViewOf(complete.bench, "bench"));
  VN_ASSIGN_OR_RETURN(pair.device, ViewOf(complete.device, "device"));
  pair.device_dtype = pair.device.dtype;
  pair.has_float8_inputs = complete.has_float8_inputs != 0;
  if (complete.device_dtype == nullptr) return pair;
  const std::optional<Dtype> dtype = ParseDtype(complete.device_dtype);
  if (!dtype) return Error{ErrorCode::kUnsupported, "device", std::string("dtype ") + complete.device_dtype};
  pair.device_dtype = *dtype;
  return pair;
}

Result<Direction> DirectionOf(int32_t direction) {
  if (direction != VN_FORWARD && direction != VN_BACKWARD)
    return BadArgument("direction", std::to_string(direction));
  return static_cast<Direction>(direction);
}

VnTable* TableOf(const std::vector<precheck::NamedCell>& cells) {
  auto table = std::make_unique<VnTable>();
  std::vector<Cell> row;
  for (const auto& [name, cell] : cells) {
    table->columns.push_back(name);
    row.push_back(cell);
  }
  table->rows.emplace_back(row);
  return table.release();
}

VnTable* TableOf(const DetailsRow& row) {
  auto table = std::make_unique<VnTable>();
  std::vector<Cell> cells;
  for (std::size_t i = 1; i < precheck::kNumDetails; ++i) {
    table->columns.emplace_back(precheck::kDetailColumns[i].english);
    const DetailsRow::Value& value = row.cells[i];
    const std::string* text = std::get_if<std::string>(&value);
    const double* number = std::get_if<double>(&value);
    cells.push_back(text != nullptr ? Cell(*text) : number != nullptr ? Cell(*number) : Cell());
  }
  cells[precheck::At(Detail::kStatus) - 1] = Name(row.status);
  cells[precheck::At(Detail::kMessage) - 1] = row.message;
  table->rows.emplace_back(cells);
  return table.release();
}

// Adds a row made by `make` to the call.
template <class Make>
VnStatus AddRow(VnPrecheck* precheck, int32_t direction, std::initializer_list<NamedPointer> texts,
                const Make& make) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"precheck", precheck}}));
    VN_RETURN_IF_ERROR(CheckNotNull(texts));
    VN_ASSIGN_OR_RETURN(const Direction side, DirectionOf(direction));
    precheck->call->Row(side, make());
    return Done{};
  });
}

}  // namespace
}  // namespace vernier

using namespace vernier;  // NOLINT: the functions below are C

VnStatus VnPrecheckOpen(const char* settings_json, VnPrecheck** precheck) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"settings_json", settings_json}, {"precheck", precheck}}));
    VN_ASSIGN_OR_RETURN(std::unique_ptr<VnPrecheck> opened, OpenPrecheck(settings_json));
    *precheck = opened.release();
    return Done{};
  });
}

void VnClosePrecheck(VnPrecheck* precheck) { delete precheck; }

const char* VnPrecheckCallRules(void) { return precheck::ShippedCallRules().data(); }

VnStatus VnPrecheckMetrics(VnPrecheck* precheck, const VnCheckedPair* pair, VnTable** row) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"precheck", precheck}, {"row", row}}));
    VN_ASSIGN_OR_RETURN(const PairOfTensors tensors, PairOf(pair));
    VN_ASSIGN_OR_RETURN(const std::vector<precheck::NamedCell> cells,
                        precheck::AllMetrics(precheck->call->settings(), tensors));
    *row = TableOf(cells);
    return Done{};
  });
}

VnStatus VnPrecheckBegin(VnPrecheck* precheck, const char* full_name, const char* api) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"precheck", precheck}, {"full_name", full_name}, {"api", api}}));
    precheck->call->Begin(full_name, api);
    return Done{};
  });
}

VnStatus VnPrecheckTensors(VnPrecheck* precheck, int32_t direction, const VnCheckedPair* pair) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"precheck", precheck}}));
    VN_ASSIGN_OR_RETURN(const Direction side, DirectionOf(direction));
    VN_ASSIGN_OR_RETURN(const PairOfTensors tensors, PairOf(pair));
    return precheck->call->Tensors(side, tensors);
  });
}

VnStatus VnPrecheckDropout(VnPrecheck* precheck, int32_t direction, const VnCheckedPair* pair) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"precheck", precheck}}));
    VN_ASSIGN_OR_RETURN(const Direction side, DirectionOf(direction));
    VN_ASSIGN_OR_RETURN(const PairOfTensors tensors, PairOf(pair));
    return precheck->call->Dropout(side, tensors);
  });
}

VnStatus VnPrecheckPlain(VnPrecheck* precheck, int32_t direction, const char* bench_type,
                         const char* device_type, int32_t are_equal) {
  return AddRow(precheck, direction, {{"bench_type", bench_type}, {"device_type", device_type}},
                [&] { return precheck::JudgePlain(bench_type, device_type, are_equal != 0); });
}

VnStatus VnPrecheckMismatch(VnPrecheck* precheck, int32_t direction, const char* what, const char* bench,
                            const char* device) {
  return AddRow(precheck, direction, {{"what", what}, {"bench", bench}, {"device", device}},
                [&] { return precheck::MismatchRow(what, bench, device); });
}

VnStatus VnPrecheckSkip(VnPrecheck* precheck, int32_t direction, const char* reason) {
  return AddRow(precheck, direction, {{"reason", reason}}, [&] { return precheck::SkippedRow(reason); });
}

VnStatus VnPrecheckInput(VnPrecheck* precheck, const char* name, const VnTensor* tensor) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"precheck", precheck}, {"name", name}}));
    if (!precheck->call->explains()) return Done{};
    VN_ASSIGN_OR_RETURN(const TensorView view, ViewOf(tensor, name));
    return precheck->call->Input(name, view);
  });
}

VnStatus VnPrecheckRow(VnPrecheck* precheck, VnTable** row) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"precheck", precheck}, {"row", row}}));
    if (!precheck->call->last_row()) return BadArgument("precheck", "nothing was judged yet");
    *row = TableOf(*precheck->call->last_row());
    return Done{};
  });
}

const char* VnPrecheckVerdict(const VnPrecheck* precheck, int32_t direction) {
  if (precheck == nullptr || (direction != VN_FORWARD && direction != VN_BACKWARD)) return " ";
  return Name(precheck->call->verdict(static_cast<Direction>(direction))).data();
}

const char* VnPrecheckRollUp(const char* const* statuses, size_t num_statuses) {
  std::vector<precheck::Verdict> verdicts;
  for (size_t i = 0; i < num_statuses; ++i) {
    const auto verdict = precheck::ParseVerdict(statuses[i] != nullptr ? statuses[i] : "?");
    if (!verdict) return nullptr;
    verdicts.push_back(*verdict);
  }
  return Name(precheck::RollUp(verdicts)).data();
}

VnStatus VnPrecheckFinish(VnPrecheck* precheck, const char** json, size_t* json_bytes) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"precheck", precheck}, {"json", json}, {"json_bytes", json_bytes}}));
    precheck->json = precheck::ToJson(precheck->call->Finish());
    *json = precheck->json.c_str();
    *json_bytes = precheck->json.size();
    return Done{};
  });
}
