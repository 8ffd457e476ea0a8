// The recorder.
#include <algorithm>
#include <cstring>

#include "capi/c_api_internal.h"
#include "core/json_cursor.h"
#include "measure/sketch.h"
#include "record/hdf5_sink.h"
#include "vernier/dtype.h"
#include "vernier/record.h"

struct VnRecorder {
  std::unique_ptr<vernier::Recorder> recorder;
};

namespace vernier {
namespace {

// ---- the two JSON arguments: each key a row

std::string TakeText(JsonCursor& json) {
  std::string buffer;
  return std::string(json.TakeString(buffer));
}

// One of the words, as its position.
template <std::size_t kCount>
std::size_t TakeChoice(JsonCursor& json, const std::string_view (&words)[kCount]) {
  const std::string text = TakeText(json);
  const auto* const found = std::find(std::begin(words), std::end(words), text);
  if (found == std::end(words)) json.Fail(JsonError::kUnknownChoice);
  return found == std::end(words) ? 0 : static_cast<std::size_t>(found - words);
}

std::int64_t TakeInteger(JsonCursor& json, std::int64_t min, std::int64_t max) {
  const double number = json.TakeNumber();
  if (!(number >= static_cast<double>(min) && number <= static_cast<double>(max))) {
    json.Fail(JsonError::kOutOfRange);
    return min;
  }
  return static_cast<std::int64_t>(number);
}

template <class T>
struct Key {
  std::string_view name;
  void (*take)(JsonCursor& json, T& into);
};

constexpr std::string_view kSummaries[] = {"statistics", "md5", "xor"};
constexpr std::string_view kPrecisions[] = {"low", "high"};
constexpr std::int64_t kMostBytes = std::int64_t{1} << 53;  // that a JSON number holds exactly

// clang-format off
constexpr Key<RecorderOptions> kOptionKeys[] = {
    {"threads",        [](JsonCursor& json, RecorderOptions& o) { o.num_threads = static_cast<int>(TakeInteger(json, 0, 1024)); }},
    {"writers",        [](JsonCursor& json, RecorderOptions& o) { o.num_writers = static_cast<int>(TakeInteger(json, 0, 1024)); }},
    {"staging_bytes",  [](JsonCursor& json, RecorderOptions& o) { o.staging_bytes = static_cast<std::uint64_t>(TakeInteger(json, 1, kMostBytes)); }},
    {"min_free_bytes", [](JsonCursor& json, RecorderOptions& o) { o.min_free_bytes = TakeInteger(json, -1, kMostBytes); }},
    {"diff_nums",      [](JsonCursor& json, RecorderOptions& o) { o.diff_nums = TakeInteger(json, -1, kMostBytes); }},
    {"dedup",          [](JsonCursor& json, RecorderOptions& o) { o.dedup = json.TakeBool(); }},
    {"sketch",         [](JsonCursor& json, RecorderOptions& o) {
       o.sketch_sums = static_cast<std::size_t>(TakeInteger(json, 0, kSketchSums));
       if (o.sketch_sums != 0 && !IsSketchSize(o.sketch_sums)) json.Fail(JsonError::kOutOfRange);
     }},
    {"identity",       [](JsonCursor& json, RecorderOptions& o) { o.identity = json.TakeBool(); }},
    {"summary",        [](JsonCursor& json, RecorderOptions& o) { o.summary = static_cast<SummaryMode>(TakeChoice(json, kSummaries)); }},
    {"precision",      [](JsonCursor& json, RecorderOptions& o) { o.high_precision = TakeChoice(json, kPrecisions) == 1; }},
    {"hdf5",           [](JsonCursor& json, RecorderOptions& o) {
       o.full_statistics = json.TakeBool();
       if (o.full_statistics) o.open_sink = Hdf5Sinks();
     }},
    {"tensors",        [](JsonCursor& json, RecorderOptions& o) { o.tensors = json.TakeBool(); }},
};
constexpr Key<RecordFolder> kFolderKeys[] = {
    {"folder",         [](JsonCursor& json, RecordFolder& f) { f.folder = TakeText(json); }},
    {"file",           [](JsonCursor& json, RecordFolder& f) { f.file = TakeText(json); }},
    {"header",         nullptr},  // kept as it is written
    {"dump_data_dir",  [](JsonCursor& json, RecordFolder& f) {
       if (json.Peek() == JsonKind::kNull) { json.TakeNull(); } else { f.dump_data_dir = TakeText(json); }
     }},
    {"stack",          [](JsonCursor& json, RecordFolder& f) { f.stack = json.TakeBool(); }},
    {"construct",      [](JsonCursor& json, RecordFolder& f) { f.construct = json.TakeBool(); }},
};
// clang-format on

template <class T, std::size_t kCount, class Raw>
Result<Done> TakeKeys(const char* text, const char* role, const Key<T> (&keys)[kCount], T& into, Raw&& raw) {
  if (text == nullptr) return BadArgument(role, "is NULL");
  JsonCursor json(text);
  std::string where = role;
  json.ForEachMember([&](std::string_view name, bool) {
    where = std::string(role) + "." + std::string(name);
    const auto* const key =
        std::find_if(std::begin(keys), std::end(keys), [&](const Key<T>& row) { return row.name == name; });
    if (key == std::end(keys)) return json.Fail(JsonError::kUnknownKey);
    if (key->take != nullptr) return key->take(json, into);
    json.Peek();
    const std::size_t start = json.position();
    json.Skip();
    raw(std::string_view(text + start, json.position() - start));
  });
  if (!json.ok()) return BadArgument(where, json.problem());
  return Done{};
}

// ----

std::string_view Text(const char* data, size_t size) {
  return data != nullptr ? std::string_view(data, size) : "";
}

// Runs fn(recorder) as a call of the API.
template <class Fn>
VnStatus OnRecorder(VnRecorder* handle, Fn&& fn) {
  return Guarded([&]() -> Result<Done> {
    if (handle == nullptr) return BadArgument("recorder", "is NULL");
    return fn(*handle->recorder);
  });
}

}  // namespace
}  // namespace vernier

using namespace vernier;  // NOLINT: the functions below are C

int64_t VnDtypeCode(const char* name) {
  const std::optional<Dtype> dtype = name != nullptr ? ParseDtype(name) : std::nullopt;
  return dtype ? static_cast<int64_t>(*dtype) : -1;
}

VnStatus VnRecorderOpen(const char* options_json, VnRecorder** recorder) {
  return Guarded([&]() -> Result<Done> {
    if (recorder == nullptr) return BadArgument("recorder", "is NULL");
    RecorderOptions options;
    VN_RETURN_IF_ERROR(TakeKeys(options_json, "options", kOptionKeys, options, [](std::string_view) {}));
    VN_ASSIGN_OR_RETURN(std::unique_ptr<Recorder> opened, Recorder::Open(std::move(options)));
    *recorder = new VnRecorder{std::move(opened)};
    return Done{};
  });
}

VnStatus VnRecorderBegin(VnRecorder* recorder, const char* begin_json) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    RecordFolder folder;
    folder.header = "{}";
    VN_RETURN_IF_ERROR(TakeKeys(begin_json, "begin", kFolderKeys, folder,
                                [&](std::string_view header) { folder.header = header; }));
    if (folder.folder.empty()) return BadArgument("begin.folder", "is missing");
    if (folder.file.empty() || folder.file.find('/') != std::string::npos) {
      return BadArgument("begin.file", "\"" + folder.file + "\" is not a file name");
    }
    return r.Begin(folder);
  });
}

VnStatus VnRecorderCompareWith(VnRecorder* recorder, const char* folder) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (folder == nullptr) return BadArgument("folder", "is NULL");
    return r.CompareWith(folder);
  });
}

VnStatus VnRecorderCompareCall(VnRecorder* recorder, const char* name, size_t name_bytes, const char* parts,
                               size_t parts_bytes, uint64_t found_before, uint32_t* what, uint64_t* num_found,
                               const char** says) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (what == nullptr || num_found == nullptr || says == nullptr) return BadArgument("what", "is NULL");
    VN_ASSIGN_OR_RETURN(LiveVerdict verdict,
                        r.CompareCall(Text(name, name_bytes), Text(parts, parts_bytes), found_before));
    *what = 0;
    if (verdict.store) *what |= VN_CALL_STORE;
    if (verdict.stop) *what |= VN_CALL_STOP;
    *num_found = verdict.num_found;
    thread_local std::string kept;
    kept = std::move(verdict.says);
    *says = kept.c_str();
    return Done{};
  });
}

VnStatus VnRecorderCompared(VnRecorder* recorder, uint32_t* is_problem, const char** says) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (is_problem == nullptr || says == nullptr) return BadArgument("says", "is NULL");
    VN_ASSIGN_OR_RETURN(LiveSummary summary, r.Compared());
    *is_problem = summary.is_problem ? 1 : 0;
    thread_local std::string kept;
    kept = std::move(summary.says);
    *says = kept.c_str();
    return Done{};
  });
}

VnStatus VnRecorderPut(VnRecorder* recorder, const char* name, size_t name_bytes, const char* text,
                       size_t text_bytes, const int64_t* words, size_t num_words, int64_t stack,
                       uint32_t flags, uint32_t* seen) {
  uint32_t found = 0;
  const VnStatus status = OnRecorder(recorder, [&](Recorder& r) {
    return r.Put(Text(name, name_bytes), Text(text, text_bytes), {words, words != nullptr ? num_words : 0},
                 stack, flags, found);
  });
  if (seen != nullptr) *seen = found;
  return status;
}

VnStatus VnRecorderConstruct(VnRecorder* recorder, const char* name, size_t name_bytes, const char* parent,
                             size_t parent_bytes, int64_t micro_step) {
  return OnRecorder(recorder, [&](Recorder& r) {
    return r.Construct(Text(name, name_bytes),
                       parent != nullptr ? std::optional(Text(parent, parent_bytes)) : std::nullopt,
                       micro_step >= 0 ? std::optional(micro_step) : std::nullopt);
  });
}

VnStatus VnRecorderNote(VnRecorder* recorder, const char* name, size_t name_bytes, int64_t stack) {
  return OnRecorder(recorder, [&](Recorder& r) { return r.Note(Text(name, name_bytes), stack); });
}

VnStatus VnRecorderState(VnRecorder* recorder, const char* state_json, size_t state_bytes) {
  return OnRecorder(recorder, [&](Recorder& r) { return r.SetState(Text(state_json, state_bytes)); });
}

VnStatus VnRecorderStack(VnRecorder* recorder, int64_t stack, const char* frames_json, size_t frames_bytes) {
  return OnRecorder(recorder,
                    [&](Recorder& r) { return r.DeclareStack(stack, Text(frames_json, frames_bytes)); });
}

VnStatus VnRecorderDescribe(VnRecorder* recorder, const char* file_stem, size_t stem_bytes,
                            const int64_t* words, size_t num_words, uint32_t flags, const char** text,
                            size_t* text_bytes) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (text == nullptr || text_bytes == nullptr) return BadArgument("text", "is NULL");
    if (flags != 0) return BadArgument("flags", "must be 0");
    thread_local std::string kept;
    VN_ASSIGN_OR_RETURN(kept,
                        r.Describe(Text(file_stem, stem_bytes), {words, words != nullptr ? num_words : 0}));
    *text = kept.c_str();
    *text_bytes = kept.size();
    return Done{};
  });
}

VnStatus VnRecorderFill(VnRecorder* recorder, const int64_t* slots, size_t num_slots, const int64_t* values,
                        const uint8_t* kinds, const uint64_t* digests) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (num_slots > 0 && (slots == nullptr || values == nullptr)) return BadArgument("slots", "is NULL");
    for (size_t i = 0; i < num_slots; ++i) {
      FilledValue four[4];
      for (size_t k = 0, at = 4 * i; k < 4; ++k, ++at) {
        four[k] = {FilledValue::kDouble, values[at]};
        if (kinds != nullptr) four[k].kind = static_cast<FilledValue::Kind>(kinds[at]);
      }
      const auto digest = digests == nullptr ? std::nullopt : std::optional<std::uint64_t>(digests[i]);
      VN_RETURN_IF_ERROR(r.Fill(slots[i], four, digest));
    }
    return Done{};
  });
}

VnStatus VnRecorderFillFound(VnRecorder* recorder, const int64_t* slots, size_t num_slots,
                             const uint64_t* found) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (num_slots > 0 && (slots == nullptr || found == nullptr)) return BadArgument("slots", "is NULL");
    constexpr std::size_t kWords = 8;
    for (std::size_t i = 0; i < num_slots; ++i) {
      VN_RETURN_IF_ERROR(
          r.FillFound(slots[i], std::span<const std::uint64_t, kWords>(found + kWords * i, kWords)));
    }
    return Done{};
  });
}

VnStatus VnRecorderFillSketches(VnRecorder* recorder, const int64_t* slots, size_t num_slots,
                                const uint64_t* words) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (num_slots > 0 && (slots == nullptr || words == nullptr)) return BadArgument("slots", "is NULL");
    constexpr std::size_t kWords = VN_SKETCH_WORDS;
    for (std::size_t i = 0; i < num_slots; ++i) {
      VN_RETURN_IF_ERROR(
          r.FillSketch(slots[i], std::span<const std::uint64_t, kWords>(words + kWords * i, kWords)));
    }
    return Done{};
  });
}

VnStatus VnRecorderFillTensor(VnRecorder* recorder, int64_t slot, const int64_t* words, size_t num_words) {
  return OnRecorder(recorder, [&](Recorder& r) {
    return r.FillTensor(slot, {words, words != nullptr ? num_words : 0});
  });
}

VnStatus VnRecorderLendTensor(VnRecorder* recorder, int64_t slot, const int64_t* words, size_t num_words) {
  return OnRecorder(recorder, [&](Recorder& r) {
    return r.LendTensor(slot, {words, words != nullptr ? num_words : 0});
  });
}

VnStatus VnRecorderReturned(VnRecorder* recorder, int32_t wait, int64_t* slots, size_t max_slots,
                            size_t* num_slots) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (slots == nullptr || num_slots == nullptr) return BadArgument("slots", "is NULL");
    *num_slots = r.TakeReturned({slots, max_slots}, wait != 0);
    return Done{};
  });
}

VnStatus VnRecorderFindSame(VnRecorder* recorder, int64_t slot, const int64_t* words, size_t num_words,
                            uint32_t crc32, uint64_t xor64, int64_t* same) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (same == nullptr) return BadArgument("same", "is NULL");
    VN_ASSIGN_OR_RETURN(*same, r.FindSame(slot, {words, words != nullptr ? num_words : 0}, crc32, xor64));
    return Done{};
  });
}

VnStatus VnRecorderFillSame(VnRecorder* recorder, int64_t slot, int64_t same) {
  return OnRecorder(recorder, [&](Recorder& r) { return r.FillSame(slot, same); });
}

VnStatus VnRecorderFlush(VnRecorder* recorder) {
  return OnRecorder(recorder, [](Recorder& r) { return r.Flush(); });
}

VnStatus VnRecorderUseCuda(VnRecorder* recorder, const char* nvrtc_path) {
  return OnRecorder(recorder,
                    [&](Recorder& r) { return r.UseCuda(nvrtc_path != nullptr ? nvrtc_path : ""); });
}

uint64_t VnCudaDtypes(void) { return Recorder::DeviceDtypes(); }

VnStatus VnRecorderUseKernels(VnRecorder* recorder, void* ring, uint64_t ring_on_device) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (ring == nullptr) return BadArgument("ring", "is NULL");
    return r.UseKernels(ring, ring_on_device);
  });
}

VnStatus VnRecorderTakeLaunches(VnRecorder* recorder, const int64_t** words, size_t* num_words) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (words == nullptr || num_words == nullptr) return BadArgument("words", "is NULL");
    thread_local std::vector<std::int64_t> taken;
    taken = r.TakeLaunches();
    *words = taken.data();
    *num_words = taken.size();
    return Done{};
  });
}

VnStatus VnRecorderBeginChecksums(VnRecorder* recorder, const int64_t* words, size_t num_words,
                                  uint64_t* number) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (number == nullptr) return BadArgument("number", "is NULL");
    *number = r.BeginChecksums({words, words != nullptr ? num_words : 0});
    return Done{};
  });
}

VnStatus VnRecorderTakeChecksums(VnRecorder* recorder, uint64_t number, uint32_t* crc32, uint64_t* xor64,
                                 uint32_t* known) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (crc32 == nullptr || xor64 == nullptr || known == nullptr) return BadArgument("known", "is NULL");
    const auto values = r.TakeChecksums(number);
    *known = values ? 1 : 0;
    *crc32 = values ? values->first : 0;
    *xor64 = values ? values->second : 0;
    return Done{};
  });
}

VnStatus VnRecorderLose(VnRecorder* recorder, uint64_t first, uint64_t count, const char* why) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    r.Lose(first, count, {ErrorCode::kUnsupported, "a device", why != nullptr ? why : ""});
    return Done{};
  });
}

const uint32_t* VnKernelTables(size_t* num_words) {
  const std::span<const std::uint32_t> tables = Recorder::KernelTables();
  if (num_words != nullptr) *num_words = tables.size();
  return tables.data();
}

VnStatus VnRecorderEnd(VnRecorder* recorder) {
  return OnRecorder(recorder, [](Recorder& r) { return r.End(); });
}

VnStatus VnRecorderTotals(VnRecorder* recorder, VnRecordTotals* totals) {
  return OnRecorder(recorder, [&](Recorder& r) -> Result<Done> {
    if (totals == nullptr) return BadArgument("totals", "is NULL");
    const RecordTotals now = r.Totals();
    const size_t known_bytes = std::min(totals->struct_bytes, sizeof(VnRecordTotals));
    const VnRecordTotals all{known_bytes,      now.num_records, now.num_tensors,
                             now.num_measured, now.num_files,   now.bytes_seen,
                             now.bytes_stored, now.bytes_saved, now.bytes_measured};
    std::memcpy(totals, &all, known_bytes);
    return Done{};
  });
}

void VnCloseRecorder(VnRecorder* recorder) { delete recorder; }
