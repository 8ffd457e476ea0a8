#include "format/pt.h"

#include <fcntl.h>
#include <unistd.h>

#include "format/format_testing.h"
#include "format/little_endian.h"
#include "format/pt_write.h"
#include "gmock/gmock.h"
#include "temporary_folder.h"

namespace vernier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Loaded {
  FileRef file;
  Entries entries;

  TensorView Load(const std::string& name) const {
    for (const TensorEntry& entry : entries) {
      if (entry.info.name != name) continue;
      Result<TensorView> view = LoadEntry(entry, file);
      EXPECT_TRUE(view) << view.error().Message();
      return view ? *view : TensorView{};
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  Error Damage(const std::string& name) const {
    for (const TensorEntry& entry : entries) {
      if (entry.info.name == name && entry.info.damage) return *entry.info.damage;
    }
    ADD_FAILURE() << name << " is not damaged";
    return {};
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const TensorEntry& entry : entries) names.push_back(entry.info.name);
    return names;
  }
};

Loaded List(const FileRef& file) {
  Result<Entries> entries = ListPt(file);
  EXPECT_TRUE(entries) << entries.error().Message();
  return {file, entries ? *entries : Entries{}};
}

Loaded List(const std::string& fixture) { return List(MappedFile::Open(DataFile(fixture)).value()); }

Error ErrorOf(const std::string& fixture) {
  const auto entries = ListPt(MappedFile::Open(DataFile(fixture)).value());
  EXPECT_FALSE(entries);
  return entries ? Error{} : entries.error();
}

Bytes Floats(const std::vector<float>& values) { return BytesOf(values); }

// A pickle as torch would keep it, with one storage of this many bytes.
FileRef Archive(const std::string& pickle, std::size_t storage_bytes = 16) {
  const Bytes storage(storage_bytes, std::byte{1});
  ZipLayout zip;
  zip.Add("x/data.pkl", AsBytes(pickle));
  zip.Add("x/data/0", storage);
  Bytes bytes;
  for (const auto piece : zip.Finish()) bytes.insert(bytes.end(), piece.begin(), piece.end());
  return MappedFile::FromBytes(std::move(bytes), "x.pt");
}

std::string Long(std::int64_t number) {
  std::string out = "\x8a\x08";
  AppendLittle(out, number);
  return out;
}

std::string Tuple(const std::vector<std::int64_t>& numbers) {
  std::string out = "(";
  for (const std::int64_t number : numbers) out += Long(number);
  return out + "t";
}

// A call that rebuilds a float32 tensor over storage 0; without the final STOP.
std::string Tensor(std::int64_t offset, const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides, std::int64_t storage_elements = 4) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x01"
         "0U\x03"
         "cpu" +
         Long(storage_elements) + "tQ" + Long(offset) + Tuple(shape) + Tuple(strides) + "\x89NtR";
}

TEST(Pt, ReadsABareTensorInPlace) {
  for (const char* fixture : {"pt_bare.pt", "pt_bare_legacy.pt", "pt_npu.pt"}) {
    const Loaded loaded = List(fixture);
    EXPECT_THAT(loaded.Names(), ElementsAre(""));
    const TensorView view = loaded.Load("");
    EXPECT_EQ(view.dtype, Dtype::kI16);
    EXPECT_EQ(view.shape, (Shape{2, 3}));
    EXPECT_EQ(BytesOf(view), ZeroToFive(Dtype::kI16));
    EXPECT_TRUE(view.file) << "not used in place";
  }
}

TEST(Pt, ReadsEveryDtype) {
  for (const char* fixture : {"pt_dtypes.pt", "pt_dtypes_legacy.pt"}) {
    const Loaded loaded = List(fixture);
    EXPECT_EQ(loaded.entries.size(), 17u);
    for (const TensorEntry& entry : loaded.entries) {
      const TensorView view = loaded.Load(entry.info.name);
      EXPECT_EQ(Name(view.dtype), entry.info.name);
      EXPECT_EQ(BytesOf(view), ZeroToFive(view.dtype)) << fixture << " " << entry.info.name;
    }
  }
}

TEST(Pt, NamesTheTensorsOfACheckpointByTheirPath) {
  for (const char* fixture :
       {"pt_checkpoint.pt", "pt_checkpoint_legacy.pt", "pt_checkpoint_protocol3.pt",
        "pt_checkpoint_protocol4.pt", "pt_checkpoint_protocol5.pt", "pt_checkpoint_legacy_protocol4.pt",
        "pt_checkpoint_1_13.pt", "pt_checkpoint_1_13_legacy.pt"}) {
    const Loaded loaded = List(fixture);
    EXPECT_THAT(loaded.Names(),
                ElementsAre("model.a.weight", "model.a.bias", "model.p", "list.0", "list.1.0", "3"));
    EXPECT_EQ(BytesOf(loaded.Load("model.a.weight")), Floats({0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(BytesOf(loaded.Load("model.a.bias")), Floats({3, 4, 5}));
    EXPECT_EQ(loaded.Load("model.p").dtype, Dtype::kBF16);
    EXPECT_EQ(BytesOf(loaded.Load("list.0")), BytesOf(std::vector<std::int64_t>{5}));
    EXPECT_EQ(loaded.Load("list.1.0").shape, (Shape{0, 4}));
    EXPECT_EQ(BytesOf(loaded.Load("3")), BytesOf(std::vector<std::uint8_t>{1, 0}));
  }
}

TEST(Pt, GathersViews) {
  for (const char* fixture : {"pt_views.pt", "pt_views_legacy.pt", "pt_views_deflated.pt"}) {
    const Loaded loaded = List(fixture);
    EXPECT_EQ(BytesOf(loaded.Load("every_second")), Floats({6, 8, 10, 12, 14, 16}));
    EXPECT_EQ(BytesOf(loaded.Load("column")), Floats({5, 11, 17, 23}));
    EXPECT_EQ(BytesOf(loaded.Load("expanded")), Floats({15, 15, 15, 15}));
    EXPECT_EQ(loaded.Load("nothing").shape, (Shape{0, 6}));
    EXPECT_EQ(BytesOf(loaded.Load("scalar")), Floats({23}));
    const TensorView transposed = loaded.Load("transposed");
    EXPECT_EQ(transposed.shape, (Shape{6, 4}));
    EXPECT_EQ(LoadLittle<std::uint32_t>(transposed.bytes(), 4), std::bit_cast<std::uint32_t>(6.0f));
  }
}

TEST(Pt, ReadsParametersAndStorages) {
  for (const char* fixture : {"pt_parameter.pt", "pt_storage.pt"}) {
    EXPECT_EQ(BytesOf(List(fixture).Load("")), Floats({0, 1, 2})) << fixture;
  }
}

TEST(Pt, HonoursTheByteOrderOfTheArchive) {
  EXPECT_EQ(BytesOf(List("pt_big_endian.pt").Load("")), ZeroToFive(Dtype::kI16));
}

TEST(Pt, ReadsStorageViewsOfOldFiles) {
  const Loaded loaded = List("pt_legacy_view.pt");
  EXPECT_EQ(BytesOf(loaded.Load("0")), Floats({3, 4}));
  EXPECT_EQ(loaded.Damage("1").code, ErrorCode::kBadShape);
}

TEST(Pt, SaysOfEachTensorItCannotReadWhy) {
  const Loaded loaded = List("pt_odd.pt");
  EXPECT_EQ(BytesOf(loaded.Load("good")), Floats({1, 1}));
  EXPECT_EQ(BytesOf(loaded.Load("subclass")), Floats({1}));
  const std::pair<const char*, const char*> cases[] = {
      {"sparse", "_rebuild_sparse_tensor"}, {"csr", "_rebuild_sparse"},
      {"quantized", "_rebuild_qtensor"},    {"meta", "meta device"},
      {"conjugate", "resolve_conj"},        {"half_complex", "torch.complex32"},
      {"e8m0", "torch.float8_e8m0fnu"},
  };
  for (const auto& [name, text] : cases) {
    const std::string message = loaded.Damage(name).Message();
    EXPECT_THAT(message, HasSubstr(text));
    EXPECT_THAT(message, HasSubstr("pt_odd.pt: " + std::string(name)));
  }
  EXPECT_THAT(List("pt_meta_location.pt").Damage("").Message(), HasSubstr("meta device"));
  EXPECT_THAT(List("pt_missing_storage.pt").Damage("").Message(), HasSubstr("data/7"));
  EXPECT_THAT(List("pt_past_storage.pt").Damage("").Message(), HasSubstr("past its storage of 12 bytes"));
}

TEST(Pt, ExecutesNothing) {
  for (const char* fixture : {"pt_evil.pt", "pt_evil_legacy.pt"}) {
    const Error error = ErrorOf(fixture);
    EXPECT_EQ(error.code, ErrorCode::kUnsafePickle);
    EXPECT_THAT(error.Message(), HasSubstr("posix.system"));
    EXPECT_THAT(error.Message(), HasSubstr(fixture));
  }
  EXPECT_FALSE(std::filesystem::exists("/tmp/vernier-was-executed"));
}

TEST(Pt, SaysWhatToDoWithTorchScript) {
  EXPECT_THAT(ErrorOf("pt_script.pt").Message(), HasSubstr("state_dict()"));
}

TEST(Pt, RefusesStridesThatLeaveTheStorage) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const struct {
    std::int64_t offset;
    std::vector<std::int64_t> shape, strides;
  } bad[] = {
      {1, {4}, {1}},     {0, {5}, {1}},           {4, {1}, {1}},         {0, {2, 2}, {3, 1}},
      {0, {4}, {-1}},    {-1, {1}, {1}},          {0, {-1}, {1}},        {0, {3}, {kHuge}},
      {kHuge, {1}, {1}}, {0, {2, 2}, {kHuge, 3}}, {0, {4}, {}},          {0, {}, {1}},
      {0, {kHuge}, {0}}, {0, {kHuge, 8}, {0, 0}}, {kHuge, {2}, {kHuge}}, {0, {1 << 20, 1 << 20}, {0, 0}},
  };
  for (const auto& [offset, shape, strides] : bad) {
    const Loaded loaded = List(Archive(Tensor(offset, shape, strides) + "."));
    ASSERT_EQ(loaded.entries.size(), 1u);
    EXPECT_FALSE(LoadEntry(loaded.entries[0], loaded.file));
  }
  EXPECT_EQ(BytesOf(List(Archive(Tensor(1, {3}, {1}) + ".")).Load("")).size(), 12u);
  EXPECT_EQ(List(Archive(Tensor(99, {0, 7}, {1, 1}) + ".")).Load("").num_elements, 0u);
  EXPECT_EQ(List(Archive(Tensor(0, {1}, {1}, /*storage_elements=*/5) + ".")).Damage("").code,
            ErrorCode::kTruncated);
}

TEST(Pt, KeepsOneBadTensorFromCostingTheOthers) {
  const Loaded loaded = List(Archive("}(U\1a" + Tensor(0, {9}, {1}) + "U\1b" + Tensor(0, {4}, {1}) + "u."));
  EXPECT_FALSE(loaded.Damage("a").Message().empty());
  EXPECT_EQ(loaded.Load("b").num_elements, 4u);
}

TEST(Pt, ListsATensorAlongEveryPathButStopsAtBillions) {
  // {long: same, "b": same} around itself: 2^levels paths, and names that grow with each level.
  const auto doubled = [](int levels, std::size_t key_bytes) {
    std::string key = "X";
    AppendLittle(key, static_cast<std::uint32_t>(key_bytes));
    key.append(key_bytes, 'a');
    std::string pickle = Tensor(0, {4}, {1}) + "q\1" + "0";
    for (int i = 0; i < levels; ++i) pickle += "}(" + key + "h\1U\1bh\1uq\1" + "0";
    return Archive(pickle + "h\1.");
  };
  EXPECT_THAT(List(doubled(2, 1)).Names(), ElementsAre("a.a", "a.b", "b.a", "b.b"));
  const auto too_many = ListPt(doubled(60, 1000));
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().code, ErrorCode::kTooLarge);
}

TEST(Pt, WalksBillionsOfPathsWithoutTensorsOnce) {
  std::string pickle = ")";
  for (int i = 0; i < 300; ++i) pickle += "2\x86";
  EXPECT_EQ(List(Archive(pickle + ".")).entries.size(), 0u);
}

TEST(Pt, EndsOnStructuresThatHoldThemselvesOrAreTooDeep) {
  const Loaded loaded = List(Archive("]q\1h\1a" + Tensor(0, {4}, {1}) + "a."));
  EXPECT_THAT(loaded.Names(), ElementsAre("1"));
  const auto deep = ListPt(Archive(Tensor(0, {4}, {1}) + std::string(100000, '\x85') + "."));
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().code, ErrorCode::kTooLarge);
}

TEST(Pt, TellsItsFilesFromOthers) {
  EXPECT_TRUE(LooksLikePtLegacy(ReadBytes(DataFile("pt_bare_legacy.pt"))));
  EXPECT_TRUE(LooksLikePtLegacy(ReadBytes(DataFile("pt_checkpoint_legacy_protocol4.pt"))));
  EXPECT_FALSE(LooksLikePtLegacy(ReadBytes(DataFile("pt_bare.pt"))));
  EXPECT_FALSE(LooksLikePtLegacy(ToBytes("\x80\x02K\x01.")));
  EXPECT_TRUE(LooksLikePtZip(*ListZip(MappedFile::Open(DataFile("pt_bare.pt")).value())));
  EXPECT_FALSE(LooksLikePtZip(*ListZip(MappedFile::Open(DataFile("npz_stored.npz")).value())));
  EXPECT_EQ(ListPt(MappedFile::FromBytes(ToBytes("text"), "x.pt")).error().code, ErrorCode::kBadMagic);
}

TEST(Pt, NoticesADamagedPickleByItsChecksum) {
  const FileRef intact = MappedFile::Open(DataFile("pt_bare.pt")).value();
  const std::vector<ZipMember> members = ListZip(intact).value();
  const auto pickle = std::find_if(members.begin(), members.end(),
                                   [](const ZipMember& member) { return member.name.ends_with("data.pkl"); });
  ASSERT_NE(pickle->crc32, 0u);
  for (std::uint64_t i = 0; i < pickle->stored_bytes; ++i) {
    Bytes bytes(intact->bytes().begin(), intact->bytes().end());
    bytes[pickle->data_offset_bytes + i] ^= std::byte{1} << i % 8;
    const auto entries = ListPt(MappedFile::FromBytes(std::move(bytes), "x.pt"));
    ASSERT_FALSE(entries) << i;
    EXPECT_THAT(entries.error().Message(), HasSubstr("its checksum is wrong"));
  }
}

// Torch may be told to leave checksums out; and a pickle ends where its member does.
TEST(Pt, TakesPicklesWithoutAChecksumButNotWithMoreBehind) {
  const FileRef intact = MappedFile::Open(DataFile("pt_bare.pt")).value();
  const auto rebuilt = [&](std::optional<std::uint32_t> crc32, bool longer) {
    const std::vector<ZipMember> members = ListZip(intact).value();
    std::vector<Bytes> contents;
    ZipLayout zip;
    contents.reserve(members.size());
    for (const ZipMember& member : members) {
      const bool is_pickle = member.name.ends_with("data.pkl");
      Bytes& bytes = contents.emplace_back(UnzipMember(intact, member).value());
      if (is_pickle && longer) bytes.push_back(std::byte{'.'});
      zip.Add(member.name, bytes, is_pickle ? crc32 : std::nullopt);
    }
    Bytes file;
    for (const auto piece : zip.Finish()) file.insert(file.end(), piece.begin(), piece.end());
    return ListPt(MappedFile::FromBytes(std::move(file), "x.pt"));
  };
  EXPECT_TRUE(rebuilt(std::nullopt, false));
  EXPECT_TRUE(rebuilt(0, false));
  const auto longer = rebuilt(std::nullopt, true);
  ASSERT_FALSE(longer);
  EXPECT_THAT(longer.error().Message(), HasSubstr("its pickle ends 1 bytes too early"));
}

TEST(Pt, SurvivesEveryDamage) {
  for (const char* fixture : {"pt_bare.pt", "pt_bare_legacy.pt", "pt_checkpoint_legacy.pt",
                              "pt_views_deflated.pt", "pt_checkpoint_protocol4.pt", "pt_legacy_view.pt"}) {
    ExpectSurvivesDamage(ReadBytes(DataFile(fixture)), ListPt);
  }
}

TEST(Pt, ATruncatedFileNeverReadsAsWhole) {
  for (const char* fixture : {"pt_bare.pt", "pt_bare_legacy.pt"}) {
    const Bytes good = ReadBytes(DataFile(fixture));
    for (std::size_t size = 0; size < good.size(); ++size) {
      const FileRef file =
          MappedFile::FromBytes(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)), "x");
      const auto entries = ListPt(file);
      if (!entries) continue;
      ASSERT_EQ(entries->size(), 1u);
      EXPECT_FALSE(LoadEntry(entries->at(0), file)) << fixture << " cut at " << size;
    }
  }
}

// ---- writing

constexpr Dtype kAllDtypes[] = {
#define VN_ID(id, type, name, kind) Dtype::id,
    VN_FOR_EACH_DTYPE(VN_ID)
#undef VN_ID
};

TEST(PtWrite, ReadsBackEveryDtypeAndShape) {
  const TemporaryFolder folder;
  const Bytes data(16 * 70000, std::byte{1});
  const std::vector<Shape> shapes = {{}, {0}, {3}, {2, 3}, {2, 0, 5}, {2, 3, 4, 5}, {1, 70000}};
  for (const Dtype dtype : kAllDtypes) {
    for (const Shape& shape : shapes) {
      const TensorView tensor = BorrowTensor(dtype, shape, data.data());
      const std::filesystem::path path = folder.path() / "sub" / "x.pt";
      const Result<Done> written = WritePt(path, tensor, {.wait_for_disk = false});
      ASSERT_TRUE(written) << written.error().Message();
      const TensorView read = List(MappedFile::Open(path).value()).Load("");
      EXPECT_EQ(read.dtype, dtype);
      EXPECT_EQ(read.shape, shape);
      EXPECT_EQ(BytesOf(read), BytesOf(tensor));
    }
  }
}

TEST(PtWrite, GivesTheSameBytesToADescriptorAndWithAKnownChecksum) {
  const TemporaryFolder folder;
  const std::vector<float> data = {1, 2, 3};
  const TensorView tensor = BorrowTensor(Dtype::kF32, {3}, data.data());
  ASSERT_TRUE(WritePt(folder.path() / "a.pt", tensor));
  const Bytes expected = ReadBytes(folder.path() / "a.pt");
  const auto crc32 = ListZip(MappedFile::Open(folder.path() / "a.pt").value())->at(2).crc32;

  const int descriptor = open((folder.path() / "b.pt").c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_TRUE(WritePt(descriptor, "b.pt", tensor));
  close(descriptor);
  EXPECT_EQ(ReadBytes(folder.path() / "b.pt"), expected);
  ASSERT_TRUE(WritePt(folder.path() / "c.pt", tensor, {.wait_for_disk = false, .crc32 = crc32}));
  EXPECT_EQ(ReadBytes(folder.path() / "c.pt"), expected);
}

TEST(PtWrite, PutsTheElementsAtAMultipleOf64WithoutACopy) {
  const std::vector<float> data(100, 1);
  const TensorView tensor = BorrowTensor(Dtype::kF32, {100}, data.data());
  const PtFile file(tensor);
  std::uint64_t at = 0;
  bool found = false;
  for (const std::span<const std::byte> piece : file.pieces()) {
    if (piece.data() == tensor.data) {
      found = true;
      EXPECT_EQ(at % 64, 0u);
      EXPECT_EQ(piece.size(), 400u);
    }
    at += piece.size();
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(at, file.size_bytes());
}

TEST(PtWrite, SaysWhenThereIsNoSpace) {
  const std::vector<float> data(100, 1);
  const Result<Done> written = WritePt("/dev/full", BorrowTensor(Dtype::kF32, {100}, data.data()));
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().Message(), HasSubstr("/dev/full"));
}

}  // namespace
}  // namespace vernier
