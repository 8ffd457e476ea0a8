#include "format/hdf5.h"

#include <hdf5.h>

#include <numeric>

#include "format/format_testing.h"
#include "format/little_endian.h"
#include "gmock/gmock.h"
#include "temporary_folder.h"

namespace vernier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Loaded {
  FileRef file;
  Entries entries;

  const TensorEntry* Find(const std::string& name) const {
    for (const TensorEntry& entry : entries) {
      if (entry.info.name == name) return &entry;
    }
    return nullptr;
  }
  TensorView Load(const std::string& name) const {
    const TensorEntry* entry = Find(name);
    EXPECT_TRUE(entry) << "no dataset " << name;
    if (!entry) return {};
    Result<TensorView> view = LoadEntry(*entry, file);
    EXPECT_TRUE(view) << view.error().Message();
    return view ? *view : TensorView{};
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const TensorEntry& entry : entries) names.push_back(entry.info.name);
    return names;
  }
};

Loaded List(const FileRef& file) {
  Result<Entries> entries = ListHdf5(file);
  EXPECT_TRUE(entries) << entries.error().Message();
  return {file, entries ? *entries : Entries{}};
}

Loaded List(const std::string& fixture) { return List(MappedFile::Open(DataFile(fixture)).value()); }

template <class T>
std::vector<T> UpTo(std::size_t num_elements) {
  std::vector<T> numbers(num_elements);
  std::iota(numbers.begin(), numbers.end(), T{0});
  return numbers;
}

TEST(Hdf5, ReadsEveryDtypeThatH5pyWrites) {
  const std::pair<std::string, Dtype> dtypes[] = {
      {"f2", Dtype::kF16},   {"f4", Dtype::kF32}, {"f8", Dtype::kF64}, {"i1", Dtype::kI8},
      {"i2", Dtype::kI16},   {"i4", Dtype::kI32}, {"i8", Dtype::kI64}, {"u1", Dtype::kU8},
      {"u2", Dtype::kU16},   {"u4", Dtype::kU32}, {"u8", Dtype::kU64}, {"c8", Dtype::kC64},
      {"c16", Dtype::kC128}, {"b1", Dtype::kBool}};
  const Loaded loaded = List("hdf5_dtypes.h5");
  for (const auto& [name, dtype] : dtypes) {
    const TensorView view = loaded.Load(name);
    EXPECT_EQ(view.dtype, dtype) << name;
    EXPECT_EQ(view.shape, (Shape{2, 3}));
    EXPECT_EQ(BytesOf(view), ZeroToFive(dtype)) << name;
    EXPECT_TRUE(view.file) << "not used in place";
    if (ItemBytes(dtype) == 1) continue;
    EXPECT_EQ(BytesOf(loaded.Load("big_" + name)), ZeroToFive(dtype)) << name;
  }
}

TEST(Hdf5, ReadsEveryLayoutFilterAndChunkIndex) {
  const Bytes grid = BytesOf(UpTo<std::int32_t>(35));
  for (const char* fixture : {"hdf5_layouts.h5", "hdf5_layouts_latest.h5"}) {
    const Loaded loaded = List(fixture);
    for (const char* name :
         {"contiguous", "compact", "implicit", "chunked", "gzip", "gzip_shuffle_fletcher", "lzf", "one_chunk",
          "big_endian", "grows", "grows_second", "grows_twice", "grows_twice_gzip", "may_grow"}) {
      const TensorView view = loaded.Load(name);
      EXPECT_EQ(view.shape, (Shape{7, 5})) << name;
      EXPECT_EQ(BytesOf(view), grid) << fixture << " " << name;
    }
    EXPECT_TRUE(loaded.Load("contiguous").file) << "not used in place";
    EXPECT_TRUE(loaded.Load("compact").file) << "not used in place";
    EXPECT_EQ(BytesOf(loaded.Load("scalar")), BytesOf(std::vector<double>{3.5}));
    EXPECT_EQ(loaded.Load("scalar").shape, Shape{});
    EXPECT_EQ(loaded.Load("empty").shape, (Shape{0, 4}));
    EXPECT_EQ(BytesOf(loaded.Load("never_written")), BytesOf(std::vector<float>(4, 2.5f)));
    EXPECT_EQ(BytesOf(loaded.Load("never_written_chunks")), BytesOf(std::vector<std::int16_t>(6, 7)));
    EXPECT_EQ(BytesOf(loaded.Load("partly_written")),
              BytesOf(std::vector<std::uint8_t>{9, 9, 9, 9, 1, 2, 9, 9, 9}));
  }
}

TEST(Hdf5, FindsChunksInPagesAndSuperBlocks) {
  const Loaded loaded = List("hdf5_many_chunks.h5");
  for (const char* name : {"fixed", "grows"}) {
    EXPECT_EQ(BytesOf(loaded.Load(name)), BytesOf(UpTo<std::int16_t>(3000))) << name;
  }
}

TEST(Hdf5, ListsGroupsInCreationOrderWhereTracked) {
  for (const char* fixture : {"hdf5_groups.h5", "hdf5_groups_latest.h5"}) {
    const Loaded loaded = List(fixture);
    const std::vector<std::string> names = loaded.Names();
    ASSERT_EQ(names.size(), 48u);
    EXPECT_THAT(std::vector(names.begin(), names.begin() + 8),
                ElementsAre("a", "b/deep/x", "few/z", "few/y", "few/x", "few/a", "few/b", "hard"));
    for (int i = 0; i < 40; ++i) {
      const std::string name = "many/" + std::to_string(i * 27 % 40);
      EXPECT_EQ(names[8 + static_cast<std::size_t>(i)], name);
      EXPECT_EQ(BytesOf(loaded.Load(name)), BytesOf(std::vector<std::int8_t>{static_cast<std::int8_t>(i)}));
    }
    EXPECT_EQ(BytesOf(loaded.Load("hard")), BytesOf(loaded.Load("a")));
  }
}

TEST(Hdf5, SaysOfEachDatasetItCannotReadWhy) {
  const Loaded loaded = List("hdf5_odd.h5");
  EXPECT_EQ(BytesOf(loaded.Load("good")), BytesOf(UpTo<float>(3)));
  EXPECT_EQ(BytesOf(loaded.Load("of_type")), BytesOf(UpTo<float>(3)));
  const std::pair<std::string, std::string> cases[] = {
      {"compound", "datatype compound of 12 bytes"},
      {"enum", "datatype enum"},
      {"opaque", "datatype opaque"},
      {"lists", "variable length"},
      {"reference", "reference"},
      {"scaled", "filter 6 (scaleoffset)"},
      {"huge", "more than the file can hold"},
      {"elsewhere", "another file"},
  };
  for (const auto& [name, text] : cases) {
    const TensorEntry* entry = loaded.Find(name);
    ASSERT_TRUE(entry) << name;
    ASSERT_TRUE(entry->info.damage) << name;
    EXPECT_THAT(entry->info.damage->Message(), HasSubstr(text));
    EXPECT_THAT(entry->info.damage->Message(), HasSubstr("hdf5_odd.h5: " + name));
  }
  EXPECT_EQ(loaded.entries.size(), std::size(cases) + 2);
}

TEST(Hdf5, StartsBehindAUserBlock) {
  EXPECT_TRUE(LooksLikeHdf5(ReadBytes(DataFile("hdf5_user_block.h5"))));
  EXPECT_EQ(BytesOf(List("hdf5_user_block.h5").Load("x")), BytesOf(UpTo<std::int32_t>(3)));
}

TEST(Hdf5, TellsItsFilesFromOthers) {
  EXPECT_TRUE(LooksLikeHdf5(ReadBytes(DataFile("hdf5_tiny.h5"))));
  EXPECT_FALSE(LooksLikeHdf5(ReadBytes(DataFile("pt_bare.pt"))));
  EXPECT_FALSE(LooksLikeHdf5(Bytes()));
  EXPECT_EQ(ListHdf5(MappedFile::FromBytes(ToBytes("text"), "x.h5")).error().code, ErrorCode::kBadMagic);
}

TEST(Hdf5, ATruncatedFileIsAnError) {
  const Bytes good = ReadBytes(DataFile("hdf5_tiny.h5"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    const auto entries = ListHdf5(
        MappedFile::FromBytes(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)), "x.h5"));
    ASSERT_FALSE(entries) << size;
    EXPECT_THAT(entries.error().Message(), HasSubstr("x.h5"));
  }
}

TEST(Hdf5, SurvivesEveryDamage) {
  for (const char* fixture : {"hdf5_tiny.h5", "hdf5_tiny_latest.h5", "hdf5_odd.h5"}) {
    ExpectSurvivesDamage(ReadBytes(DataFile(fixture)), ListHdf5);
  }
}

// Every structure with a signature, pointed at itself or at another one.
// Metadata of new files and data with fletcher32 have checksums. What has none is the bytes of the other
// datasets: a flip there changes one byte of one tensor, and lzf may spread it.
TEST(Hdf5, NoticesEveryFlippedBitThatAChecksumCovers) {
  for (const char* fixture : {"hdf5_layouts_latest.h5", "hdf5_groups_latest.h5", "hdf5_many_chunks.h5"}) {
    const FileRef intact = MappedFile::Open(DataFile(fixture)).value();
    const Loaded before = List(intact);
    std::size_t num_noticed = 0;
    constexpr std::size_t kStep = 11;  // every byte would take minutes with sanitizers
    for (std::size_t at = 0; at < intact->bytes().size(); at += kStep) {
      Bytes bytes(intact->bytes().begin(), intact->bytes().end());
      bytes[at] ^= std::byte{1} << at % 8;
      const FileRef file = MappedFile::FromBytes(std::move(bytes), fixture);
      const Result<Entries> entries = ListHdf5(file);
      if (!entries) {
        ++num_noticed;
        continue;
      }
      const Loaded after{file, *entries};
      for (const TensorEntry& entry : before.entries) {
        const std::string& name = entry.info.name;
        const TensorEntry* same = after.Find(name);
        for (std::size_t end = name.rfind('/'); !same && end != std::string::npos;
             end = name.rfind('/', end - 1))
          same = after.Find(name.substr(0, end));  // a group that cannot be read stands for what is in it
        ASSERT_TRUE(same) << fixture << " byte " << at << ": " << name << " is gone";
        const Result<TensorView> view = LoadEntry(*same, file);
        if (!view) {
          ++num_noticed;
          continue;
        }
        const TensorView expected = LoadEntry(entry, intact).value();
        ASSERT_EQ(view->shape, expected.shape) << fixture << " byte " << at << " " << name;
        ASSERT_EQ(view->dtype, expected.dtype) << fixture << " byte " << at << " " << name;
        const Bytes a = BytesOf(*view), b = BytesOf(expected);
        std::size_t num_changed = 0;
        for (std::size_t k = 0; k < a.size(); ++k) num_changed += a[k] != b[k];
        const std::size_t may_change = name == "lzf" ? a.size() : name == "gzip_shuffle_fletcher" ? 0 : 1;
        ASSERT_LE(num_changed, may_change) << fixture << " byte " << at << " " << name;
      }
    }
    EXPECT_GT(num_noticed, 100u) << fixture;
  }
}

TEST(Hdf5, EndsOnStructuresThatReferToThemselves) {
  for (const char* fixture : {"hdf5_tiny.h5", "hdf5_groups_latest.h5", "hdf5_layouts_latest.h5"}) {
    const Bytes good = ReadBytes(DataFile(fixture));
    std::vector<std::size_t> structures;
    for (const char* signature : {"TREE", "SNOD", "HEAP", "OHDR", "OCHK", "FRHP", "FHIB", "FHDB", "BTHD",
                                  "BTIN", "BTLF", "FAHD", "FADB", "EAHD", "EAIB", "EASB", "EADB"}) {
      const std::size_t at = AsText(good).find(signature);
      if (at != std::string_view::npos) structures.push_back(at);
    }
    for (const std::size_t at : structures) {
      for (const std::size_t target : {at, structures.front(), structures.back()}) {
        for (std::size_t field = at + 4; field < at + 72 && field + 8 <= good.size(); ++field) {
          Bytes bad = good;
          std::memcpy(bad.data() + field, &target, sizeof(std::uint64_t));
          const FileRef file = MappedFile::FromBytes(std::move(bad), "damaged");
          const auto entries = ListHdf5(file);
          if (entries) ReadEverything(*entries, file);
        }
      }
    }
  }
}

// ---- files of the library that we link for writing

TEST(Hdf5, ReadsWhatTheLinkedLibraryWrites) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "x.h5";
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  const std::vector<float> numbers = UpTo<float>(1000);
  const hsize_t dims[] = {10, 100}, chunk[] = {3, 40};
  const hid_t space = H5Screate_simple(2, dims, nullptr);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 2, chunk);
  H5Pset_shuffle(properties);
  H5Pset_deflate(properties, 4);
  for (const auto& [name, create] :
       {std::pair("packed", properties), std::pair("plain", hid_t{H5P_DEFAULT})}) {
    const hid_t dataset = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, create, H5P_DEFAULT);
    ASSERT_GE(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), 0);
    H5Dclose(dataset);
  }
  H5Pclose(properties);
  H5Sclose(space);
  H5Fclose(file);

  const Loaded loaded = List(MappedFile::Open(path).value());
  EXPECT_THAT(loaded.Names(), ElementsAre("packed", "plain"));
  EXPECT_EQ(BytesOf(loaded.Load("packed")), BytesOf(numbers));
  EXPECT_EQ(BytesOf(loaded.Load("plain")), BytesOf(numbers));
}

}  // namespace
}  // namespace vernier
