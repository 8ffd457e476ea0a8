#include "format/pickle_globals.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace vernier {
namespace {

using enum PickleRole;

// clang-format off
constexpr PickleGlobal kGlobals[] = {
    {"torch._utils", "_rebuild_tensor",                        kTensor},
    {"torch._utils", "_rebuild_tensor_v2",                     kTensor},
    {"torch._utils", "_rebuild_tensor_v3",                     kTensorV3},
    {"torch_npu.utils.storage", "_rebuild_npu_tensor",         kTensor},
    {"torch._utils", "_rebuild_parameter",                     kFirstArgument},
    {"torch._utils", "_rebuild_parameter_with_state",          kFirstArgument},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor", kFirstArgument},
    {"torch.nn.parameter", "Parameter",                        kFirstArgument},
    {"torch.nn.parameter", "Buffer",                           kFirstArgument},
    {"torch._tensor", "_rebuild_from_type",                    kTensorFromType},
    {"torch._tensor", "_rebuild_from_type_v2",                 kTensorFromType},
    {"torch._utils", "_rebuild_meta_tensor_no_storage",        kMetaTensor},
    {"torch._utils", "_rebuild_sparse_tensor",                 kUnreadableTensor},
    {"torch._utils", "_rebuild_sparse_csr_tensor",             kUnreadableTensor},
    {"torch._utils", "_rebuild_nested_tensor",                 kUnreadableTensor},
    {"torch._utils", "_rebuild_qtensor",                       kUnreadableTensor},
    {"torch._utils", "_rebuild_wrapper_subclass",              kUnreadableTensor},
    {"torch._utils", "_rebuild_device_tensor_from_numpy",      kUnreadableTensor},
    {"torch._utils", "_rebuild_xla_tensor",                    kUnreadableTensor},
    {"torch", "Tensor",                                        kOpaque},

    {"torch", "DoubleStorage",        kStorageClass, Dtype::kF64,  8},
    {"torch", "FloatStorage",         kStorageClass, Dtype::kF32,  4},
    {"torch", "HalfStorage",          kStorageClass, Dtype::kF16,  2},
    {"torch", "BFloat16Storage",      kStorageClass, Dtype::kBF16, 2},
    {"torch", "ComplexFloatStorage",  kStorageClass, Dtype::kC64,  8},
    {"torch", "ComplexDoubleStorage", kStorageClass, Dtype::kC128, 16},
    {"torch", "CharStorage",          kStorageClass, Dtype::kI8,   1},
    {"torch", "ShortStorage",         kStorageClass, Dtype::kI16,  2},
    {"torch", "IntStorage",           kStorageClass, Dtype::kI32,  4},
    {"torch", "LongStorage",          kStorageClass, Dtype::kI64,  8},
    {"torch", "ByteStorage",          kStorageClass, Dtype::kU8,   1},
    {"torch", "BoolStorage",          kStorageClass, Dtype::kBool, 1},
    {"torch", "QInt8Storage",         kStorageClass, std::nullopt, 1},
    {"torch", "QUInt8Storage",        kStorageClass, std::nullopt, 1},
    {"torch", "QInt32Storage",        kStorageClass, std::nullopt, 4},
    {"torch", "QUInt4x2Storage",      kStorageClass, std::nullopt, 1},
    {"torch", "QUInt2x4Storage",      kStorageClass, std::nullopt, 1},
    {"torch", "UntypedStorage",          kStorageClass, Dtype::kU8, 1},
    {"torch.storage", "UntypedStorage",  kStorageClass, Dtype::kU8, 1},
    {"torch.storage", "_UntypedStorage", kStorageClass, Dtype::kU8, 1},

    {"torch", "complex32",        kDtype}, {"torch", "float8_e8m0fnu", kDtype}, {"torch", "float4_e2m1fn_x2", kDtype},
    {"torch", "qint8",            kDtype}, {"torch", "quint8",         kDtype}, {"torch", "qint32",           kDtype},
    {"torch", "quint4x2",         kDtype}, {"torch", "quint2x4",       kDtype}, {"torch", "bits16",           kDtype},
    {"torch", "bits1x8",          kDtype}, {"torch", "bits2x4",        kDtype}, {"torch", "bits4x2",          kDtype},
    {"torch", "bits8",            kDtype},
    {"torch", "int1", kDtype}, {"torch", "int2", kDtype}, {"torch", "int3", kDtype}, {"torch", "int4", kDtype},
    {"torch", "int5", kDtype}, {"torch", "int6", kDtype}, {"torch", "int7", kDtype},
    {"torch", "uint1", kDtype}, {"torch", "uint2", kDtype}, {"torch", "uint3", kDtype}, {"torch", "uint4", kDtype},
    {"torch", "uint5", kDtype}, {"torch", "uint6", kDtype}, {"torch", "uint7", kDtype},
#define VN_DTYPE_GLOBAL(id, type, dtype_name, kind) {"torch", dtype_name, kDtype, Dtype::id},
    VN_FOR_EACH_DTYPE(VN_DTYPE_GLOBAL)
#undef VN_DTYPE_GLOBAL

    {"torch", "Size",                           kSequence},
    {"torch", "device",                         kOpaque},
    {"torch", "per_tensor_affine",              kOpaque},
    {"torch", "per_tensor_symmetric",           kOpaque},
    {"torch", "per_channel_affine",             kOpaque},
    {"torch", "per_channel_symmetric",          kOpaque},
    {"torch", "per_channel_affine_float_qparams", kOpaque},
    {"torch.serialization", "_get_layout",      kOpaque},
    {"torch_npu.npu._format", "Format",         kOpaque},

    {"collections", "OrderedDict",              kDict},
    {"collections", "defaultdict",              kDict},
    {"collections", "Counter",                  kDict},
    {"collections", "deque",                    kSequence},
    {"argparse", "Namespace",                   kObject},
    {"types", "SimpleNamespace",                kObject},
    {"pathlib", "Path",                         kOpaque},
    {"pathlib", "PosixPath",                    kOpaque},
    {"pathlib", "PurePosixPath",                kOpaque},
    {"pathlib", "WindowsPath",                  kOpaque},
    {"pathlib._local", "PosixPath",             kOpaque},
    {"datetime", "date",                        kOpaque},
    {"datetime", "datetime",                    kOpaque},
    {"datetime", "timedelta",                   kOpaque},
    {"_codecs", "encode",                       kOpaque},
    {"copyreg", "_reconstructor",               kOpaque},
    {"copy_reg", "_reconstructor",              kOpaque},

    {"numpy", "dtype",                          kOpaque},
    {"numpy", "ndarray",                        kOpaque},
    {"numpy.core.multiarray", "scalar",         kOpaque},
    {"numpy._core.multiarray", "scalar",        kOpaque},
    {"numpy.core.multiarray", "_reconstruct",   kOpaque},
    {"numpy._core.multiarray", "_reconstruct",  kOpaque},
    {"numpy._core.numeric", "_frombuffer",      kOpaque},
    {"numpy.core.numeric", "_frombuffer",       kOpaque},

#define VN_BUILTIN(builtin_name, role) {"builtins", builtin_name, role}, {"__builtin__", builtin_name, role},
    VN_BUILTIN("set", kSequence)     VN_BUILTIN("frozenset", kSequence) VN_BUILTIN("list", kSequence)
    VN_BUILTIN("tuple", kSequence)   VN_BUILTIN("dict", kDict)          VN_BUILTIN("int", kOpaque)
    VN_BUILTIN("float", kOpaque)     VN_BUILTIN("bool", kOpaque)        VN_BUILTIN("str", kOpaque)
    VN_BUILTIN("bytes", kOpaque)     VN_BUILTIN("bytearray", kOpaque)   VN_BUILTIN("complex", kOpaque)
    VN_BUILTIN("slice", kOpaque)     VN_BUILTIN("range", kOpaque)       VN_BUILTIN("object", kOpaque)
    VN_BUILTIN("long", kOpaque)      VN_BUILTIN("unicode", kOpaque)     VN_BUILTIN("xrange", kOpaque)
#undef VN_BUILTIN
};
// clang-format on

// By name first: the modules are all alike at their beginnings.
bool Before(const PickleGlobal* a, const PickleGlobal* b) {
  const int order = a->name.compare(b->name);
  return order != 0 ? order < 0 : a->module < b->module;
}

}  // namespace

const PickleGlobal* FindPickleGlobal(std::string_view module, std::string_view name) {
  // A checkpoint refers to a handful of globals hundreds of thousands of times.
  static const auto sorted = [] {
    std::vector<const PickleGlobal*> globals;
    for (const PickleGlobal& global : kGlobals) globals.push_back(&global);
    std::sort(globals.begin(), globals.end(), Before);
    return globals;
  }();
  const PickleGlobal wanted{module, name, kOpaque};
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), &wanted, Before);
  if (found == sorted.end() || (*found)->module != module || (*found)->name != name) return nullptr;
  return *found;
}

const PickleGlobal* FindStorageClass(Dtype dtype) {
  const auto* found = std::find_if(std::begin(kGlobals), std::end(kGlobals), [&](const PickleGlobal& global) {
    return global.role == kStorageClass && global.dtype == dtype;
  });
  return found == std::end(kGlobals) ? nullptr : found;
}

}  // namespace vernier
