#include "format/pt_write.h"

#include <limits.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "core/atomic_file.h"
#include "format/little_endian.h"
#include "format/pickle_globals.h"

namespace vernier {
namespace {

// ---- the few opcodes of protocol 2 that a tensor takes

void AppendGlobal(std::string& out, std::string_view module, std::string_view name) {
  out.append("c").append(module).append("\n").append(name).append("\n");
}

void AppendText(std::string& out, std::string_view text) {
  out += 'X';
  AppendLittle(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

// REQUIRES: number >= 0
void AppendInt(std::string& out, std::int64_t number) {
  if (number <= std::numeric_limits<std::uint8_t>::max()) {
    out += 'K';
    AppendLittle(out, static_cast<std::uint8_t>(number));
  } else if (number <= std::numeric_limits<std::uint16_t>::max()) {
    out += 'M';
    AppendLittle(out, static_cast<std::uint16_t>(number));
  } else if (number <= std::numeric_limits<std::int32_t>::max()) {
    out += 'J';
    AppendLittle(out, static_cast<std::int32_t>(number));
  } else {
    out += "\x8a\x08";
    AppendLittle(out, number);
  }
}

void AppendTuple(std::string& out, const std::vector<std::int64_t>& numbers) {
  if (numbers.empty()) {
    out += ')';
    return;
  }
  out += '(';
  for (const std::int64_t number : numbers) AppendInt(out, number);
  out += 't';
}

std::vector<std::int64_t> ContiguousStrides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) {
    // With a dimension of zero there are no elements, and the product of the others may be anything.
    if (__builtin_mul_overflow(strides[i], std::max<std::int64_t>(shape[i], 1), &strides[i - 1]))
      strides[i - 1] = 0;
  }
  return strides;
}

std::string TensorPickle(const TensorView& tensor) {
  // dtypes without a storage class of their own came after torch 2.1 did away with such classes: they are a
  // storage of bytes, and the tensor names the dtype.
  const PickleGlobal* const storage_class = FindStorageClass(tensor.dtype);
  const bool by_dtype = storage_class == nullptr;
  std::string out = "\x80\x02";
  AppendGlobal(out, "torch._utils", by_dtype ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  out += "((";
  AppendText(out, "storage");
  AppendGlobal(out, by_dtype ? "torch.storage" : "torch", by_dtype ? "UntypedStorage" : storage_class->name);
  AppendText(out, "0");
  AppendText(out, "cpu");
  AppendInt(out, static_cast<std::int64_t>(by_dtype ? tensor.num_bytes() : tensor.num_elements));
  out += "tQ";
  AppendInt(out, 0);
  AppendTuple(out, tensor.shape);
  AppendTuple(out, ContiguousStrides(tensor.shape));
  out += '\x89';  // requires_grad
  AppendGlobal(out, "collections", "OrderedDict");
  out += ")R";  // no hooks
  if (by_dtype) AppendGlobal(out, "torch", Name(tensor.dtype));
  return out + "tR.";
}

}  // namespace

PtFile::PtFile(const TensorView& tensor, const PtWriteOptions& options) : pickle_(TensorPickle(tensor)) {
  zip_.Add("archive/data.pkl", AsBytes(pickle_));
  zip_.Add("archive/byteorder", AsBytes("little"));
  zip_.Add("archive/data/0", tensor.bytes(), options.crc32);
  zip_.Add("archive/version", AsBytes("3\n"));
  pieces_ = zip_.Finish();
}

Result<Done> WritePt(const std::filesystem::path& path, const TensorView& tensor,
                     const PtWriteOptions& options) {
  const PtFile file(tensor, options);
  VN_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::Create(path));
  for (const std::span<const std::byte> piece : file.pieces()) VN_RETURN_IF_ERROR(out.Write(piece));
  return out.Commit(options.wait_for_disk);
}

Result<Done> WritePt(int descriptor, const std::filesystem::path& name, const TensorView& tensor,
                     const PtWriteOptions& options) {
  const PtFile file(tensor, options);
  std::vector<iovec> rest;
  for (const std::span<const std::byte> piece : file.pieces()) {
    rest.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
  }
  for (std::size_t first = 0; first < rest.size();) {
    const auto count = static_cast<int>(std::min<std::size_t>(rest.size() - first, IOV_MAX));
    const ssize_t written = writev(descriptor, rest.data() + first, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoError(name, errno);
    auto num_bytes = static_cast<std::size_t>(written);
    while (first < rest.size() && num_bytes >= rest[first].iov_len) num_bytes -= rest[first++].iov_len;
    if (first == rest.size()) break;
    rest[first].iov_base = static_cast<std::byte*>(rest[first].iov_base) + num_bytes;
    rest[first].iov_len -= num_bytes;
  }
  return Done{};
}

}  // namespace vernier
