// What needs no device: the arithmetic that host and kernel share, and what is said where there is none. The
// kernel itself is tested by tests/python/record/test_cuda.py.
#include <zlib.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "record/cuda_driver.h"
#include "record/device_meter.h"
#include "record/cuda_shared.h"
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
  EXPECT_NE(std::string(cuda::KernelSource()).find("VernierMeasureFew"), std::string::npos);
}

TEST(CudaCompiler, SaysWhatCannotBeLoaded) {
  const Result<const std::string*> code = cuda::CompiledKernel(90, "no/such/libnvrtc.so");
  if (code) GTEST_SKIP() << "a compiler was found by its usual name";
  EXPECT_EQ(code.error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(code.error().detail.empty());
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

}  // namespace
}  // namespace vernier
