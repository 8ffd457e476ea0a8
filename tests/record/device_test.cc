// What needs no device: the arithmetic that host and kernel share, and what is said where there is none. The
// kernel itself is tested by tests/python/record/test_cuda.py.
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "record/cuda_driver.h"
#include "record/cuda_shared.h"
#include "record/device_meter.h"
#include "recording.h"

namespace vernier {
namespace {

using cuda::CrcTables;

// Plays the kernel: blocks of whole turns, in which each of the threads takes every 256th vector of 16 bytes.
unsigned CrcAsOnDevice(const std::string& bytes, std::size_t vectors_per_block) {
  const CrcTables& tables = cuda::TablesForCrc();
  const std::size_t num_vectors = (bytes.size() + cuda::kVectorBytes - 1) / cuda::kVectorBytes;
  const auto word_at = [&](std::size_t vector, std::size_t word) {
    unsigned value = 0;
    const std::size_t at = vector * cuda::kVectorBytes + 4 * word;
    if (at < bytes.size())
      std::memcpy(&value, bytes.data() + at, std::min<std::size_t>(4, bytes.size() - at));
    return value;
  };
  unsigned all = 0;
  for (std::size_t begin = 0; begin < num_vectors; begin += vectors_per_block) {
    const std::size_t end = std::min(begin + vectors_per_block, num_vectors);
    const std::size_t num_turns = (end - begin + cuda::kNumThreads - 1) / cuda::kNumThreads;
    unsigned block = 0;
    for (std::size_t thread = 0; thread < cuda::kNumThreads; ++thread) {
      unsigned crc[4] = {0, 0, 0, 0};
      for (std::size_t turn = 0; turn < num_turns; ++turn) {
        const std::size_t vector = begin + turn * cuda::kNumThreads + thread;
        for (std::size_t i = 0; i < 4; ++i) {
          crc[i] = cuda::CrcTimesTable(tables.step, crc[i]) ^ (vector < end ? word_at(vector, i) : 0);
        }
      }
      unsigned joined = crc[0];
      for (std::size_t i = 1; i < 4; ++i) joined = cuda::CrcTimesTable(tables.word, joined) ^ crc[i];
      block ^= cuda::CrcTimes(joined, tables.place[thread]);
    }
    const long long behind =
        static_cast<long long>(bytes.size()) -
        static_cast<long long>((begin + num_turns * cuda::kNumThreads) * cuda::kVectorBytes);
    all ^= cuda::CrcTimes(block, cuda::CrcPower(tables.power, cuda::CrcExponent(8 * behind + 32)));
  }
  return cuda::CrcOfRest(tables, bytes.size(), all);
}

TEST(CudaCrc, JoinsPiecesToTheCrcOfTheWhole) {
  std::mt19937 random(1);
  for (const std::size_t size : {1, 3, 4, 15, 16, 17, 4095, 4096, 4097, 20'000, 100'003}) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const auto expected = static_cast<unsigned>(
        crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(size)));
    EXPECT_EQ(CrcAsOnDevice(bytes, 256), expected) << size;
    EXPECT_EQ(CrcAsOnDevice(bytes, 1024), expected) << size;
  }
}

TEST(CudaCrc, PowersGoAround) {
  const CrcTables& tables = cuda::TablesForCrc();
  EXPECT_EQ(cuda::CrcPower(tables.power, 0), cuda::kCrcOne);
  const unsigned forth = cuda::CrcPower(tables.power, cuda::CrcExponent(12'345'678));
  const unsigned back = cuda::CrcPower(tables.power, cuda::CrcExponent(-12'345'678));
  EXPECT_EQ(cuda::CrcTimes(forth, back), cuda::kCrcOne);
}

TEST(CudaKernel, FitsWhatEveryDriverPassesToAKernel) {
  EXPECT_LE(sizeof(cuda::Launch<cuda::kMaxJobs>), 4096u);
  EXPECT_NE(std::string(cuda::KernelSource(false)).find("VernierMeasureFew"), std::string::npos);
}

TEST(CudaCompiler, SaysWhatCannotBeLoaded) {
  const Result<const std::string*> code = cuda::CompiledKernel(90, "no/such/libnvrtc.so");
  if (code) GTEST_SKIP() << "a compiler was found by its usual name";
  EXPECT_EQ(code.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(code.error().detail.empty());
}

// With CUDA's run-time compiler alone, which needs no device: VERNIER_NVRTC names it where it has no usual
// name.
TEST(CudaCompiler, TakesTheKernelsWithAndWithoutSketches) {
  const char* const path = std::getenv("VERNIER_NVRTC");
  const Result<const std::string*> plain = cuda::CompiledKernel(90, path != nullptr ? path : "", false);
  if (!plain && path == nullptr) GTEST_SKIP() << "no compiler: " << plain.error().Message();
  ASSERT_TRUE(plain) << plain.error().Message();
  const Result<const std::string*> sketching = cuda::CompiledKernel(90, path != nullptr ? path : "", true);
  ASSERT_TRUE(sketching) << sketching.error().Message();
  EXPECT_GT((*sketching)->size(), (*plain)->size());
}

TEST(CudaKernel, HasSharedMemoryForTheSumsOfEachGroupOfThreads) {
  cuda::Job jobs[2] = {};
  jobs[0].item_bytes = 4;
  jobs[0].num_elements = 64;
  EXPECT_EQ(cuda::SketchBytes(jobs, 2), 0u);
  jobs[0].wanted = cuda::kSketch;
  EXPECT_EQ(cuda::SketchBytes(jobs, 2), 16u * 64 * 8);  // of 256 threads 16 groups of 16
  jobs[1] = jobs[0];
  jobs[1].item_bytes = 1;
  EXPECT_EQ(cuda::SketchBytes(jobs, 2), 64u * 64 * 8);
  jobs[1].num_elements = 63;
  EXPECT_EQ(cuda::SketchBytes(jobs, 2), 16u * 64 * 8);
}

TEST(DeviceMeter, KnowsItsDtypes) {
  const auto has = [](Dtype dtype) {
    return (DeviceMeter::SupportedDtypes() >> static_cast<unsigned>(dtype) & 1) != 0;
  };
  EXPECT_TRUE(has(Dtype::kBF16));
  EXPECT_TRUE(has(Dtype::kBool));
  EXPECT_FALSE(has(Dtype::kC64));
}

TEST(CudaRecorder, RefusesMemoryOfADeviceThatNobodyPrepared) {
  Recording recording;
  std::uint32_t seen = 0;
  const std::vector<float> data(4);
  Words words = Tensor(data.data(), Dtype::kF32, {4}, {.flags = kOnDevice});
  const auto put = [&](const char* name) {
    return recording->Put(name, "{\"x\":[\x01]}", words, -1, kFinish, seen);
  };
  const Result<Done> without_device = put("a");
  ASSERT_FALSE(without_device);
  EXPECT_NE(without_device.error().detail.find("device"), std::string::npos);
  words.insert(words.end(), {0, 0});
  const Result<Done> unprepared = put("b");
  ASSERT_FALSE(unprepared);
  EXPECT_NE(unprepared.error().detail.find("VnRecorderUseCuda"), std::string::npos);
}

TEST(CudaRecorder, SaysWhyThereIsNone) {
  Recording recording;
  const Result<Done> used = recording->UseCuda("");
  if (used) GTEST_SKIP() << "there is a device";
  EXPECT_EQ(used.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(used.error().where.empty());
}

// Plays the program that launches: measures each job of one run of floats, and writes to the ring.
class Kernels {
 public:
  explicit Kernels(Recorder& recorder) : recorder_(recorder) {
    EXPECT_TRUE(recorder.UseKernels(ring_.data(), reinterpret_cast<std::uintptr_t>(ring_.data())));
  }

  // The number of launches.
  std::size_t Run(bool whole = true) {
    const std::vector<std::int64_t> words = recorder_.TakeLaunches();
    EXPECT_EQ(words.size() % VN_LAUNCH_WORDS, 0u);
    for (std::size_t at = 0; at < words.size(); at += VN_LAUNCH_WORDS) {
      const std::int64_t* const launch = &words[at];
      variants_.push_back(launch[4]);
      for (std::int64_t job = 0; job < launch[3]; ++job) {
        const std::int64_t* const numbers = launch + 6 + (job == 0 ? 0 : 4 * job - 1);
        Measure(reinterpret_cast<const float*>(numbers[0]), numbers[1], launch[5] + job, whole);
      }
    }
    return words.size() / VN_LAUNCH_WORDS;
  }
  const std::vector<std::int64_t>& variants() const { return variants_; }

 private:
  void Measure(const float* data, std::int64_t count, std::int64_t sequence, bool whole) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      sum += data[i];
      squares += double{data[i]} * data[i];
    }
    const auto [low, high] = std::minmax_element(data, data + count);
    const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
    std::uint64_t* const found = &ring_[8 * (static_cast<std::size_t>(sequence) % (VN_RING_WORDS / 8))];
    const std::uint64_t words[] = {
        bits(sum), bits(squares), bits(*low), bits(*high), 0, 0, static_cast<std::uint64_t>(sequence)};
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < std::size(words); ++i) all ^= found[i] = words[i];
    found[7] = whole ? all : all ^ 1;
  }

  Recorder& recorder_;
  std::vector<std::uint64_t> ring_ = std::vector<std::uint64_t>(VN_RING_WORDS);
  std::vector<std::int64_t> variants_;
};

Words OnDevice(const std::vector<float>& data, const std::vector<std::int64_t>& shape,
               const std::vector<std::int64_t>& strides) {
  Words words = {
      reinterpret_cast<std::int64_t>(data.data()), 0,         0,
      static_cast<std::int64_t>(Dtype::kF32),      kOnDevice, static_cast<std::int64_t>(shape.size())};
  words.insert(words.end(), shape.begin(), shape.end());
  words.insert(words.end(), strides.begin(), strides.end());
  words.insert(words.end(), {0, 0});
  return words;
}

TEST(KernelQueue, HasTheProgramLaunchAndTakesWhatArrives) {
  Recording recording;
  Kernels kernels(*recording);
  std::vector<float> a = {1, 2, 3, -4}, b = {5, 6, 7, 8};
  std::uint32_t seen = 0;
  const Words words = OnDevice(a, {4}, {1}) + OnDevice(b, {2, 2}, {2, 1});
  ASSERT_TRUE(recording->Put("call", "{\"x\":[\x01,\x01]}", words, -1, kFinish, seen));
  EXPECT_EQ(seen & kSeenLaunches, kSeenLaunches);
  EXPECT_EQ(kernels.Run(), 1u);  // one launch for both
  ASSERT_TRUE(recording->Flush());
  const std::string text = ReadFile(recording.folder() / "dump.json");
  EXPECT_NE(text.find("\"Max\": 3.0"), std::string::npos) << text;
  EXPECT_NE(text.find("\"Min\": -4.0"), std::string::npos);
  EXPECT_NE(text.find("\"Mean\": 6.5"), std::string::npos);
}

TEST(KernelQueue, TakesSketchesThatAreWhole) {
  RecorderOptions options;
  options.sketch_sums = 64;
  Recording recording(options);
  constexpr std::size_t kPlaces = VN_RING_WORDS / 8;
  std::vector<std::uint64_t> ring(VN_RING_WORDS + kPlaces * VN_SKETCH_WORDS);
  ASSERT_TRUE(recording->UseKernels(ring.data(), reinterpret_cast<std::uintptr_t>(ring.data())));
  const std::vector<float> data(100, 2.0f);
  const auto write = [&](std::uint64_t sequence, bool whole) {
    std::uint64_t* const found = &ring[8 * sequence];
    found[6] = found[7] = sequence;
    std::uint64_t* const sketch = &ring[VN_RING_WORDS + VN_SKETCH_WORDS * sequence];
    sketch[0] = std::bit_cast<std::uint64_t>(1.0);
    sketch[64] = 5;
    sketch[65] = sketch[0] ^ 5 ^ sequence ^ (whole ? 0 : 1);
  };
  recording.Put("call", "{\"x\":[\x01]}", OnDevice(data, {10, 10}, {1, 10}));
  const std::vector<std::int64_t> launch = recording->TakeLaunches();
  ASSERT_EQ(launch.size(), static_cast<std::size_t>(VN_LAUNCH_WORDS));
  EXPECT_EQ(launch[4] >> 16 & 255, cuda::kStatistics | cuda::kSketch);
  EXPECT_EQ(launch[4] >> 24 & 255, cuda::kScattered);  // in the order of elements, not of memory
  write(1, true);
  recording.Flush();
  EXPECT_EQ(ValuesOf(recording.Document(), "sketch_bad"), std::vector<std::string>{"5"});
  EXPECT_EQ(ValuesOf(recording.Document(), "sketch").at(0).substr(0, 14), "\"AAAAAAAA8D8AA");
  recording.Put("other", "{\"x\":[\x01]}", OnDevice(data, {100}, {1}));
  recording->TakeLaunches();
  write(2, false);
  recording->Lose(2, 1, {ErrorCode::kUnsupported, "a device", "half a sketch"});
  EXPECT_FALSE(recording->Flush());
  EXPECT_EQ(ValuesOf(recording.Document(), "sketch").size(), 1u);
}

TEST(KernelQueue, GivesEachThreadItsOwnLaunches) {
  Recording recording;
  Kernels kernels(*recording);
  const std::vector<float> data(4, 2.0f);
  const auto put = [&](const char* name) {
    return recording.Put(name, "{\"x\":[\x01]}", OnDevice(data, {4}, {1}));
  };
  std::thread([&] {
    EXPECT_EQ(put("theirs") & kSeenLaunches, kSeenLaunches);
    std::thread([&] { EXPECT_TRUE(recording->TakeLaunches().empty()); }).join();
    EXPECT_EQ(kernels.Run(), 1u);
  }).join();
  EXPECT_EQ(put("ours") & kSeenLaunches, kSeenLaunches);
  EXPECT_EQ(kernels.Run(), 1u);
  EXPECT_TRUE(recording->Flush());
}

TEST(KernelQueue, LaunchesWhatIsNotOneRunByItself) {
  Recording recording;
  Kernels kernels(*recording);
  const std::vector<float> data(64, 2.0f);
  std::uint32_t seen = 0;
  const Words words = OnDevice(data, {4}, {1}) + OnDevice(data, {2, 3}, {8, 2}) + OnDevice(data, {4}, {1});
  ASSERT_TRUE(recording->Put("call", "{\"x\":[\x01,\x01,\x01]}", words, -1, kFinish, seen));
  EXPECT_EQ(kernels.Run(), 3u);
  EXPECT_EQ(kernels.variants()[0] >> 24 & 255, cuda::kOneRun);
  EXPECT_EQ(kernels.variants()[1] >> 24 & 255, cuda::kScattered);
  EXPECT_EQ(kernels.variants()[1] >> 32 & 255, 2);  // axes
  ASSERT_TRUE(recording->Flush());
}

TEST(KernelQueue, GivesUpWhatIsLostAndSaysWhyOnce) {
  Recording recording;
  Kernels kernels(*recording);
  const std::vector<float> data(4, 2.0f);
  std::uint32_t seen = 0;
  ASSERT_TRUE(recording->Put("call", "{\"x\":[\x01]}", OnDevice(data, {4}, {1}), -1, kFinish, seen));
  kernels.Run(/*whole=*/false);  // words that do not belong together have not arrived
  recording->Lose(1, 1, {ErrorCode::kUnsupported, "a device", "out of order"});
  const Result<Done> flushed = recording->Flush();
  ASSERT_FALSE(flushed);
  EXPECT_NE(flushed.error().detail.find("out of order"), std::string::npos);
  EXPECT_TRUE(recording->Flush());
  EXPECT_NE(ReadFile(recording.folder() / "dump.json").find("\"Max\": null"), std::string::npos);
}

TEST(KernelQueue, RefusesMoreTensorsOfACallThanTheRingHas) {
  Recording recording;
  Kernels kernels(*recording);
  const std::vector<float> data(4, 2.0f);
  std::uint32_t seen = 0;
  std::string text = "{\"x\":[\x01";
  Words words = OnDevice(data, {4}, {1});
  for (int i = 0; i < VN_RING_WORDS / 8; ++i) {
    text += ",\x01";
    words = words + OnDevice(data, {4}, {1});
  }
  const Result<Done> put = recording->Put("call", text + "]}", words, -1, kFinish, seen);
  ASSERT_FALSE(put);
  EXPECT_NE(put.error().detail.find("more tensors"), std::string::npos);
  kernels.Run();
  EXPECT_TRUE(recording->Flush());
  recording.Close();  // it waits for what nobody looked for, while there is a ring
}

TEST(KernelQueue, HasTablesOfHalfBytes) {
  const std::span<const std::uint32_t> tables = Recorder::KernelTables();
  ASSERT_EQ(tables.size(), 128u + 128u + 256u + 1024u);
  const CrcTables& by_bytes = cuda::TablesForCrc();
  for (const unsigned value : {0u, 1u, 0xFFFFFFFFu, 0x12345678u}) {
    unsigned product = 0;
    for (unsigned i = 0; i < 8; ++i) product ^= tables[16 * i + (value >> (4 * i) & 15)];
    EXPECT_EQ(product, cuda::CrcTimesTable(by_bytes.step, value));
  }
}

}  // namespace
}  // namespace vernier
