// What our writer leaves is read by the HDF5 library, and by our own reader.
#include "format/hdf5_write.h"

#include <hdf5.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "core/mapped_file.h"
#include "format/format_testing.h"
#include "format/hdf5.h"
#include "gmock/gmock.h"
#include "temporary_folder.h"

namespace vernier {
namespace {

using ::testing::ElementsAre;

// The library, asked for what a user of h5py would ask.
class Library {
 public:
  explicit Library(const std::filesystem::path& path)
      : file_(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)) {}
  ~Library() {
    if (file_ >= 0) H5Fclose(file_);
  }
  bool is_open() const { return file_ >= 0; }

  std::vector<std::string> Names(const char* group) const {
    std::vector<std::string> names;
    const hid_t opened = H5Gopen2(file_, group, H5P_DEFAULT);
    const auto add = [](hid_t, const char* name, const H5L_info_t*, void* into) -> herr_t {
      static_cast<std::vector<std::string>*>(into)->emplace_back(name);
      return 0;
    };
    hsize_t at = 0;
    EXPECT_GE(H5Literate(opened, H5_INDEX_CRT_ORDER, H5_ITER_INC, &at, add, &names), 0);
    H5Gclose(opened);
    return names;
  }

  // As the type that H5Dread converts to.
  template <class T>
  std::vector<T> Values(const std::string& path, hid_t type) const {
    const hid_t dataset = H5Dopen2(file_, path.c_str(), H5P_DEFAULT);
    EXPECT_GE(dataset, 0) << path;
    if (dataset < 0) return {};
    const hid_t space = H5Dget_space(dataset);
    std::vector<T> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << path;
    H5Sclose(space);
    H5Dclose(dataset);
    return values;
  }

  std::string Text(const std::string& object, const char* attribute) const {
    const hid_t opened = H5Aopen_by_name(file_, object.c_str(), attribute, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(opened, 0) << object << " " << attribute;
    if (opened < 0) return "";
    const hid_t type = H5Aget_type(opened);
    char* text = nullptr;
    EXPECT_GE(H5Aread(opened, type, &text), 0);
    const std::string copy = text != nullptr ? text : "";
    H5free_memory(text);
    H5Tclose(type);
    H5Aclose(opened);
    return copy;
  }
  std::int64_t Integer(const std::string& object, const char* attribute) const {
    const hid_t opened = H5Aopen_by_name(file_, object.c_str(), attribute, H5P_DEFAULT, H5P_DEFAULT);
    std::int64_t value = -1;
    EXPECT_GE(H5Aread(opened, H5T_NATIVE_INT64, &value), 0) << object << " " << attribute;
    H5Aclose(opened);
    return value;
  }

 private:
  hid_t file_;
};

class Hdf5WriterTest : public testing::Test {
 protected:
  Hdf5WriterTest() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

  std::unique_ptr<Hdf5Writer> Create(const Hdf5WriteAttributes& attributes = {}) {
    Result<std::unique_ptr<Hdf5Writer>> writer = Hdf5Writer::Create(path_, attributes);
    EXPECT_TRUE(writer) << writer.error().Message();
    return writer ? *std::move(writer) : nullptr;
  }
  template <class T>
  static void Add(Hdf5Writer& writer, const std::string& name, Dtype dtype,
                  const std::vector<std::int64_t>& shape, const std::vector<T>& values,
                  const Hdf5WriteAttributes& attributes = {}, bool pack = false) {
    const auto data = writer.WriteData(std::as_bytes(std::span(values)), pack);
    ASSERT_TRUE(data) << data.error().Message();
    const auto added = writer.AddDataset(name, dtype, shape, *data, attributes);
    ASSERT_TRUE(added) << added.error().Message();
    ASSERT_TRUE(writer.Commit());
  }
  Entries ReadBack() const {
    const auto entries = ListHdf5(MappedFile::Open(path_.string()).value());
    EXPECT_TRUE(entries) << entries.error().Message();
    return entries ? *entries : Entries();
  }

  TemporaryFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "written.h5";
};

TEST_F(Hdf5WriterTest, WritesEveryDtypeAndShape) {
  auto writer = Create();
  ASSERT_TRUE(writer->BeginGroup("1", {}));
  std::vector<std::string> names;
  Dtype all[] = {
#define VN_LIST(id, type, name, kind) Dtype::id,
      VN_FOR_EACH_DTYPE(VN_LIST)
#undef VN_LIST
  };
  for (const Dtype dtype : all) {
    const Bytes values = ZeroToFive(dtype);
    names.emplace_back(Name(dtype));
    Add(*writer, names.back(), dtype, {2, 3}, values, {{"dtype", "torch." + names.back()}});
  }
  Add(*writer, "scalar", Dtype::kF64, {}, std::vector<double>{2.5});
  Add(*writer, "empty", Dtype::kF32, {0, 4}, std::vector<float>{});
  names.insert(names.end(), {"scalar", "empty"});

  const Library library(path_);
  ASSERT_TRUE(library.is_open());
  EXPECT_EQ(library.Names("1"), names);
  const std::vector<double> up = {0, 1, 2, 3, 4, 5};
  for (const char* name : {"float64", "float32", "float16", "int8", "int64", "uint32"})
    EXPECT_EQ(library.Values<double>("1/" + std::string(name), H5T_NATIVE_DOUBLE), up) << name;
  EXPECT_EQ(library.Values<double>("1/scalar", H5T_NATIVE_DOUBLE), std::vector<double>{2.5});
  EXPECT_TRUE(library.Values<float>("1/empty", H5T_NATIVE_FLOAT).empty());

  const FileRef file = MappedFile::Open(path_.string()).value();
  const Entries entries = ReadBack();
  ASSERT_EQ(entries.size(), names.size());
  for (std::size_t i = 0; i < std::size(all); ++i) {
    EXPECT_EQ(entries[i].info.dtype, all[i]) << names[i];
    EXPECT_EQ(BytesOf(LoadEntry(entries[i], file).value()), ZeroToFive(all[i])) << names[i];
  }
}

TEST_F(Hdf5WriterTest, WritesAttributesThatTheLibraryReads) {
  auto writer = Create({{"format", std::string("xray-dump")}, {"version", std::int64_t{1}}, {"flag", true}});
  ASSERT_TRUE(writer->BeginGroup("7", {{"count", std::int64_t{0}}}));
  const std::string long_text(9000, 'x');
  for (int i = 0; i < 300; ++i) {
    Add(*writer, "t" + std::to_string(i), Dtype::kF32, {1}, std::vector<float>{1},
        {{"module", "blocks." + std::to_string(i)},
         {"empty", std::string()},
         {"min", -1.5},
         {"shape", std::vector<std::int64_t>{2, 3}}});
  }
  Add(*writer, "long", Dtype::kF32, {1}, std::vector<float>{1}, {{"text", long_text}});
  ASSERT_TRUE(writer->SetGroupAttributes({{"count", std::int64_t{301}}}));

  const Library library(path_);
  EXPECT_EQ(library.Text("/", "format"), "xray-dump");
  EXPECT_EQ(library.Integer("/", "version"), 1);
  EXPECT_EQ(library.Integer("/7", "count"), 301);
  EXPECT_EQ(library.Text("/7/t299", "module"), "blocks.299");
  EXPECT_EQ(library.Text("/7/t0", "empty"), "");
  EXPECT_EQ(library.Text("/7/long", "text"), long_text);
  const auto objects = ListHdf5Attributes(MappedFile::Open(path_.string()).value());
  ASSERT_TRUE(objects);
  ASSERT_EQ(objects->size(), 303u);
  EXPECT_EQ(*(*objects)[0].Number("flag"), 1);
  EXPECT_EQ(std::get<std::string>(*(*objects)[2].Find("module")), "blocks.0");
  EXPECT_EQ(*(*objects)[2].Number("min"), -1.5);
  EXPECT_FALSE((*objects)[2].Find("shape")) << "a list is no single number";
  EXPECT_EQ(std::get<std::string>(*objects->back().Find("text")), long_text);
}

TEST_F(Hdf5WriterTest, ListsThousandsOfNamesInOrderOfCreation) {
  auto writer = Create();
  std::vector<std::string> names;
  for (const char* group : {"1", "2"}) {
    ASSERT_TRUE(writer->BeginGroup(group, {}));
    names.clear();
    for (int i = 0; i < 3000; ++i) {
      // Of every length, so that blocks end in every way.
      names.push_back("k" + std::to_string((i * 7919) % 3000) +
                      std::string(static_cast<std::size_t>(i % 320), 'n'));
      Add(*writer, names.back(), Dtype::kI32, {1}, std::vector<std::int32_t>{i});
    }
    names.push_back(std::string(20000, 'l'));
    Add(*writer, names.back(), Dtype::kI32, {1}, std::vector<std::int32_t>{3000});
  }
  const Library library(path_);
  EXPECT_THAT(library.Names("/"), ElementsAre("1", "2"));
  EXPECT_EQ(library.Names("1"), names);
  EXPECT_EQ(library.Names("2"), names);
  EXPECT_EQ(library.Values<int>("2/" + names[1234], H5T_NATIVE_INT), std::vector<int>{1234});
  const Entries entries = ReadBack();
  ASSERT_EQ(entries.size(), 6002u);
  EXPECT_EQ(entries[1234].info.name, "1/" + names[1234]);
}

TEST_F(Hdf5WriterTest, ReplacesAndArranges) {
  auto writer = Create();
  ASSERT_TRUE(writer->BeginGroup("1", {}));
  for (const char* name : {"a", "b", "c"})
    Add(*writer, name, Dtype::kF32, {1}, std::vector<float>{1}, {{"index", std::int64_t{0}}});
  Add(*writer, "b", Dtype::kF64, {2}, std::vector<double>{5, 6}, {{"index", std::int64_t{1}}});
  const std::string order[] = {"c", "nothing", "a", "b"};
  ASSERT_TRUE(writer->Arrange(order, "index"));
  const Library library(path_);
  EXPECT_THAT(library.Names("1"), ElementsAre("c", "a", "b"));
  EXPECT_THAT(library.Values<double>("1/b", H5T_NATIVE_DOUBLE), ElementsAre(5, 6));
  EXPECT_EQ(library.Integer("/1/c", "index"), 0);
  EXPECT_EQ(library.Integer("/1/b", "index"), 2);
}

TEST_F(Hdf5WriterTest, DeflatesWhatIsLargeEnough) {
  auto writer = Create();
  ASSERT_TRUE(writer->BeginGroup("1", {}));
  std::vector<float> values(10000);
  std::iota(values.begin(), values.end(), 0.0f);
  Add(*writer, "large", Dtype::kF32, {100, 100}, values, {}, /*pack=*/true);
  Add(*writer, "small", Dtype::kF32, {2}, std::vector<float>{1, 2}, {}, /*pack=*/true);
  EXPECT_EQ(Library(path_).Values<float>("1/large", H5T_NATIVE_FLOAT), values);
  EXPECT_EQ(Library(path_).Values<float>("1/small", H5T_NATIVE_FLOAT), (std::vector<float>{1, 2}));
  const Entries entries = ReadBack();
  const FileRef file = MappedFile::Open(path_.string()).value();
  EXPECT_EQ(BytesOf(LoadEntry(entries[0], file).value()), BytesOf(values));
  EXPECT_LT(std::filesystem::file_size(path_), 30000u);
}

TEST_F(Hdf5WriterTest, SharesElementsBetweenDatasets) {
  auto writer = Create();
  ASSERT_TRUE(writer->BeginGroup("1", {}));
  const std::vector<float> values(100000, 1.0f);
  const auto data = writer->WriteData(std::as_bytes(std::span(values)), false);
  for (const char* name : {"a", "b"})
    ASSERT_TRUE(writer->AddDataset(name, Dtype::kF32, {{100000}}, *data, {}));
  ASSERT_TRUE(writer->Commit());
  EXPECT_EQ(Library(path_).Values<float>("1/b", H5T_NATIVE_FLOAT), values);
  EXPECT_LT(std::filesystem::file_size(path_), 500000u);
}

TEST_F(Hdf5WriterTest, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_FALSE(Hdf5Writer::Create(folder_.path() / "no" / "such" / "folder.h5", {}));
  const auto empty = std::filesystem::directory_iterator(folder_.path());
  EXPECT_EQ(std::distance(begin(empty), end(empty)), 0);
}

// Killed at any moment: what was committed before is there, for the library and for us.
TEST_F(Hdf5WriterTest, IsWholeWhenTheProcessIsKilled) {
  for (int round = 0; round < 20; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto writer = Create({{"format", std::string("xray-dump")}});
      const std::vector<float> values(3000, 1.0f);
      for (int group = 0;; ++group) {
        if (!writer->BeginGroup(std::to_string(group), {})) _exit(1);
        for (int i = 0; i < 500; ++i) {
          const auto data = writer->WriteData(std::as_bytes(std::span(values)), false);
          const std::string name =
              "blocks." + std::to_string(i) + std::string(static_cast<std::size_t>(i % 90), 'x');
          if (!data || !writer->AddDataset(name, Dtype::kF32, {{3000}}, *data, {{"module", name}}) ||
              !writer->Commit() || write(ends[1], "+", 1) != 1)
            _exit(1);
        }
      }
    }
    close(ends[1]);
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + 7 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    std::size_t num_committed = 0;
    char buffer[4096];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;)
      num_committed += static_cast<std::size_t>(got);
    close(ends[0]);
    if (num_committed == 0 && !std::filesystem::exists(path_)) continue;
    const Library library(path_);
    ASSERT_TRUE(library.is_open()) << "round " << round;
    std::size_t num_found = 0;
    for (const std::string& group : library.Names("/")) {
      const std::vector<std::string> names = library.Names(group.c_str());
      num_found += names.size();
      if (!names.empty()) {
        EXPECT_EQ(library.Values<float>(group + "/" + names.back(), H5T_NATIVE_FLOAT),
                  std::vector<float>(3000, 1.0f));
        EXPECT_EQ(library.Text("/" + group + "/" + names.back(), "module"), names.back());
      }
    }
    EXPECT_GE(num_found, num_committed);
    const Entries entries = ReadBack();
    EXPECT_EQ(entries.size(), num_found);
    for (const TensorEntry& entry : entries) EXPECT_FALSE(entry.info.damage) << entry.info.damage->Message();
    std::filesystem::remove(path_);
  }
}

}  // namespace
}  // namespace vernier
