// A recorder drives any sink: here one that keeps everything in memory.
#include "record/sink.h"

#include <array>
#include <cstring>
#include <deque>
#include <map>

#include "record/tensor_words.h"
#include "record/writer.h"
#include "recording.h"

namespace vernier {
namespace {

const std::vector<float> kOnes{1, 1}, kTwos{2, 2, 2};

struct StoredFloats : Stored {
  std::vector<std::string> places;
  std::vector<float> values;
};

// What a file of arrays would hold: for each record the ports in order, and the arrays by their names.
struct Memory {
  std::map<std::string, std::string> records;  // "field.path dtype [shape] Max storage:version ..."
  std::vector<std::string> order;
  std::deque<StoredFloats> arrays;
  std::map<std::string, std::string> parents;
  std::string state;
  int num_flushes = 0;
};

class MemorySink : public Sink {
 public:
  MemorySink(Memory& memory, const SinkContext& context) : memory_(memory), context_(context) {}

  Result<Done> Append(Entry& entry, std::span<const Field> fields) override {
    if (entry.name == "refused") return Error{ErrorCode::kIo, "memory", "full"};
    std::string& text = memory_.records[entry.name];
    text = entry.repeated ? "again " : "";
    for (const Field& field : fields) {
      if (field.from_sink) text += field.text;
      for (const Port& port : field.ports) {
        text += field.key + "." + port.path + " " + std::string(Name(*port.dtype)) + " [";
        for (const std::int64_t size : port.shape(field.sizes)) text += std::to_string(size) + " ";
        text += "] " + std::string(port.numbers().statistics[0].view());
        if (port.identity.storage != 0) text += " #" + std::to_string(port.identity.storage);
        if (port.elements() != nullptr) text += " " + std::string(NameOf(*port.elements()));
        text += "; ";
      }
    }
    memory_.order.push_back(entry.name);
    return Done{};
  }
  Result<std::vector<Field>> Reopen(const Entry& entry) override {
    Field field;
    field.key = "before";
    field.text = memory_.records[entry.name];
    field.from_sink = true;
    return std::vector<Field>{field};
  }
  Result<Done> Arrange(std::span<Entry* const> entries) override {
    memory_.order.clear();
    for (const Entry* entry : entries) memory_.order.push_back(entry->name);
    return Done{};
  }
  Result<Done> Flush(bool complete) override {
    EXPECT_TRUE(context_.writer.idle());
    memory_.num_flushes += complete ? 1 : 0;
    return Done{};
  }
  bool stores() const override { return context_.options.tensors; }
  Stored& Store(const Place& place, Elements elements) override {
    StoredFloats& stored = memory_.arrays.emplace_back();
    std::int64_t count = 1;
    for (const std::int64_t size : elements.shape) count *= size;
    stored.values.resize(static_cast<std::size_t>(count));
    std::memcpy(stored.values.data(), elements.bytes.get(), stored.values.size() * sizeof(float));
    return StoreAgain(place, stored);
  }
  Stored& StoreAgain(const Place& place, Stored& known) override {
    auto& stored = static_cast<StoredFloats&>(known);
    stored.places.push_back(std::string(place.record) + "/" + std::string(place.field) + "." +
                            std::string(place.path));
    return stored;
  }
  void Drop(Stored& stored) override { static_cast<StoredFloats&>(stored).places.pop_back(); }
  std::string_view NameOf(const Stored& stored) const override {
    return static_cast<const StoredFloats&>(stored).places.front();
  }
  void AddStack(std::string_view, std::uint32_t) override {}
  void SetParent(std::string_view name, std::optional<std::string_view> parent,
                 std::optional<std::int64_t>) override {
    memory_.parents[std::string(name)] = parent.value_or("none");
  }
  Result<Done> KeepUp() override { return Done{}; }
  void SetState(std::string_view state) override { memory_.state = state; }

 private:
  Memory& memory_;
  SinkContext context_;
};

RecorderOptions Into(Memory& memory) {
  RecorderOptions options;
  options.open_sink = [&memory](const SinkContext& context, RecordFolder) {
    return Result<std::unique_ptr<Sink>>(std::make_unique<MemorySink>(memory, context));
  };
  return options;
}

TEST(Sink, GetsPortsOfFinishedRecordsAndTheirOrder) {
  Memory memory;
  Recording recording(Into(memory));
  recording.Put("module", "{\"input_args\":[\x01]}", Floats(kOnes), 0);
  recording.Put("call", "{\"input_args\":[1,{\"mask\":\x01}],\"output\":[\x01]}",
                Floats(kOnes) + Floats(kTwos), kFinish | kRepeated);
  EXPECT_EQ(memory.records.size(), 1u);
  EXPECT_EQ(memory.records["call"], "again input_args.1.mask float32 [2 ] 1.0; output.0 float32 [3 ] 2.0; ");
  recording.Put("module", "{\"output\":[\x01]}", Floats(kTwos), kFinish);
  EXPECT_EQ(memory.order, (std::vector<std::string>{"call", "module"}));
  ASSERT_TRUE(recording->Construct("call", "module"));
  ASSERT_TRUE(recording->SetState("{\"seed\":7}"));
  recording.Flush();
  EXPECT_EQ(memory.order, (std::vector<std::string>{"module", "call"}));
  EXPECT_EQ(memory.parents["call"], "module");
  EXPECT_EQ(memory.state, "{\"seed\":7}");
  EXPECT_EQ(memory.num_flushes, 1);
  EXPECT_FALSE(std::filesystem::exists(recording.folder()));  // nobody but a sink touches the disk
}

TEST(Sink, GivesBackARecordThatIsAddedTo) {
  Memory memory;
  Recording recording(Into(memory));
  recording.Put("a", "{\"input_args\":[\x01]}", Floats(kOnes));
  recording.Put("a", "{\"output\":[\x01]}", Floats(kTwos));
  EXPECT_EQ(memory.records["a"], "input_args.0 float32 [2 ] 1.0; output.0 float32 [3 ] 2.0; ");
}

TEST(Sink, KeepsElementsOnceForAllTheirPlaces) {
  Memory memory;
  RecorderOptions options = Into(memory);
  options.tensors = true;
  Recording recording(options);
  const TensorExtras known{.storage = 5, .flags = kPlaced};
  recording.Put("a", "{\"output\":[\x01]}", Floats(kOnes, known) + Words{0});
  recording.Put("b", "{\"input_args\":[\x01]}", Floats(kOnes, known) + Words{0});
  recording.Flush();
  ASSERT_EQ(memory.arrays.size(), 1u);
  EXPECT_EQ(memory.arrays[0].values, kOnes);
  EXPECT_EQ(memory.arrays[0].places, (std::vector<std::string>{"a/output.0", "b/input_args.0"}));
  EXPECT_EQ(memory.records["b"], "input_args.0 float32 [2 ] 1.0 #5 a/output.0; ");
  recording.Put("b", "{\"input_args\":[\x01]}", Floats(kTwos), kFinish | kReplace);
  EXPECT_EQ(memory.arrays[0].places.size(), 2u);  // what came back is the sink's own business
}

TEST(Sink, GetsARecordOnceItsNumbersAreThere) {
  Memory memory;
  Recording recording(Into(memory));
  recording.Put("a", "{\"output\":[\x01]}", Tensor(nullptr, Dtype::kF32, {2}, {.flags = kDeferred}));
  EXPECT_TRUE(memory.records.empty());
  const FilledValue three{FilledValue::kInt, 3};
  ASSERT_TRUE(recording->Fill(0, std::array{three, three, three, three}, std::nullopt));
  EXPECT_EQ(memory.records["a"], "output.0 float32 [2 ] 3; ");
}

TEST(Sink, EndsTheRecordingWhenItFails) {
  Memory memory;
  Recording recording(Into(memory));
  std::uint32_t seen = 0;
  const Result<Done> failed = recording->Put("refused", "{}", {}, -1, kFinish, seen);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().Message().find("full"), std::string::npos);
  EXPECT_EQ(recording.Put("b", "{}"), static_cast<std::uint32_t>(kSeenStopped));
  EXPECT_EQ(memory.records.count("b"), 0u);
}

TEST(TensorWords, HaveTheOffsetRightBehindTheStrides) {
  const Words both =
      Words{64, 5, 1, 0, kPlaced | kOnDevice, 1, 2, 1, 7, 3, 9} + Words{64, 6, 0, 0, kPlaced, 0, 8};
  std::span<const std::int64_t> words = both;
  const Result<TensorWords> first = TakeTensor(words);
  ASSERT_TRUE(first);
  EXPECT_EQ((std::array{first->offset, first->device, first->stream}),
            (std::array<std::int64_t, 3>{7, 3, 9}));
  const Result<TensorWords> second = TakeTensor(words);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->offset, 8);
  EXPECT_TRUE(words.empty());
  words = std::span(both).first(10);
  EXPECT_FALSE(TakeTensor(words));
}

// ---- identity.jsonl

std::string LinesOf(const Recording& recording) {
  const std::string text = recording.File("identity.jsonl");
  const std::string head = "{\"format\":\"vernier-identity\",\"version\":1}\n";
  EXPECT_TRUE(text.starts_with(head)) << text;
  return text.substr(head.size());
}

RecorderOptions WithIdentity() {
  RecorderOptions options;
  options.identity = true;
  return options;
}

Words Placed(std::int64_t storage, std::int64_t version, std::int64_t offset, std::uint32_t flags = 0,
             const std::vector<std::int64_t>& strides = {}) {
  static const std::vector<float> kData(64, 1.0F);
  return Tensor(kData.data() + offset, Dtype::kF32, {2, 3},
                {.storage = storage, .version = version, .flags = kPlaced | flags}, strides) +
         Words{offset};
}

TEST(Identity, LeavesOutWhatIsUsual) {
  Recording recording(WithIdentity());
  recording.Put("a", "{\"input_args\":[\x01,\x01],\"input_kwargs\":{},\"output\":[\x01]}",
                Placed(9, 0, 0) + Placed(8, 0, 0, kParameter) + Placed(7, 3, 0));
  recording.Put("b", "{\"input_args\":[\x01,\x01,\x01]}",
                Placed(7, 3, 0) + Placed(9, 0, 8) + Placed(9, 1, 2, 0, {1, 2}), kFinish | kRepeated);
  const Words unknown = Floats(kOnes);
  recording.Put("c", "{\"input_args\":[\x01,\x01],\"output\":[\x01]}", unknown + Placed(7, 4, 0) + unknown);
  recording.Put("d", "{\"output\":[1]}");
  recording.Flush();
  EXPECT_EQ(LinesOf(recording),
            "[\"a\",{\"input_args\":[[9],[8,0,1]],\"output\":[[7,3]]}]\n"
            "[\"b\",{\"input_args\":[[7,3],[9,0,0,8],[9,1,0,2,1,2]]},true]\n"
            "[\"c\",{\"input_args\":[null,[7,4]]}]\n");
}

TEST(Identity, ALaterLineHasOnlyTheFieldsThatAreNew) {
  Recording recording(WithIdentity());
  ASSERT_TRUE(recording->SetState("{\"seed\": 7}"));
  recording.Put("a", "{\"input_args\":[\x01]}", Placed(9, 0, 0));
  recording.Put("a", "{\"output\":[\x01]}", Placed(7, 0, 0));
  recording.Flush();
  EXPECT_EQ(LinesOf(recording),
            "{\"seed\": 7}\n[\"a\",{\"input_args\":[[9]]}]\n[\"a\",{\"output\":[[7]]}]\n");
  EXPECT_FALSE(recording->SetState("[1]"));
  EXPECT_FALSE(recording->SetState("{} {}"));
}

TEST(Identity, IsNotThereUnlessWanted) {
  Recording plain;
  plain.Put("a", "{\"output\":[\x01]}", Placed(7, 0, 0));
  plain.Flush();
  EXPECT_FALSE(std::filesystem::exists(plain.folder() / "identity.jsonl"));
}

}  // namespace
}  // namespace vernier
