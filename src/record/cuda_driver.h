// NVIDIA's driver and run-time compiler, found when they are first needed: nothing of CUDA is needed to build
// or to load this library.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "vernier/result.h"

namespace vernier::cuda {

// Handles of the driver's, which we only pass on.
using Context = struct OpaqueContext*;
using Module = struct OpaqueModule*;
using Function = struct OpaqueFunction*;
using Stream = struct OpaqueStream*;
using Program = struct OpaqueProgram*;
using DevicePointer = unsigned long long;

inline constexpr int kSuccess = 0, kNotReady = 600;

// clang-format off
#define VN_FOR_EACH_DRIVER_CALL(X)                                                                     \
  X(Init,                 cuInit,                        (unsigned flags))                              \
  X(DeviceGetCount,       cuDeviceGetCount,              (int* count))                                  \
  X(DeviceGet,            cuDeviceGet,                   (int* device, int ordinal))                    \
  X(DeviceGetAttribute,   cuDeviceGetAttribute,          (int* value, int attribute, int device))       \
  X(RetainContext,        cuDevicePrimaryCtxRetain,      (Context * context, int device))               \
  X(ReleaseContext,       cuDevicePrimaryCtxRelease_v2,  (int device))                                  \
  X(GetCurrentContext,    cuCtxGetCurrent,               (Context * context))                           \
  X(PushContext,          cuCtxPushCurrent_v2,           (Context context))                             \
  X(PopContext,           cuCtxPopCurrent_v2,            (Context * context))                           \
  X(LoadModule,           cuModuleLoadData,              (Module * module, const void* image))          \
  X(UnloadModule,         cuModuleUnload,                (Module module))                               \
  X(GetFunction,          cuModuleGetFunction,           (Function * function, Module module, const char* name)) \
  X(Allocate,             cuMemAlloc_v2,                 (DevicePointer * pointer, std::size_t num_bytes)) \
  X(Free,                 cuMemFree_v2,                  (DevicePointer pointer))                       \
  X(CopyToDevice,         cuMemcpyHtoD_v2,               (DevicePointer to, const void* from, std::size_t num_bytes)) \
  X(Set8,                 cuMemsetD8_v2,                 (DevicePointer to, unsigned char value, std::size_t num_bytes)) \
  X(AllocateHost,         cuMemHostAlloc,                (void** pointer, std::size_t num_bytes, unsigned flags)) \
  X(FreeHost,             cuMemFreeHost,                 (void* pointer))                               \
  X(HostPointerOnDevice,  cuMemHostGetDevicePointer_v2,  (DevicePointer * pointer, void* host, unsigned flags)) \
  X(LaunchKernel,         cuLaunchKernel,                (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** arguments, void** extra)) \
  X(QueryStream,          cuStreamQuery,                 (Stream stream))                               \
  X(StreamIsCapturing,    cuStreamIsCapturing,           (Stream stream, int* status))                  \
  X(GetErrorString,       cuGetErrorString,              (int error, const char** text))

#define VN_FOR_EACH_COMPILER_CALL(X)                                                                   \
  X(Create,          nvrtcCreateProgram,     (Program * program, const char* source, const char* name, int num_headers, const char* const* headers, const char* const* names)) \
  X(Compile,         nvrtcCompileProgram,    (Program program, int num_options, const char* const* options)) \
  X(GetCodeBytes,    nvrtcGetCUBINSize,      (Program program, std::size_t* num_bytes))                 \
  X(GetCode,         nvrtcGetCUBIN,          (Program program, char* code))                             \
  X(GetPtxBytes,     nvrtcGetPTXSize,        (Program program, std::size_t* num_bytes))                 \
  X(GetPtx,          nvrtcGetPTX,            (Program program, char* code))                             \
  X(GetLogBytes,     nvrtcGetProgramLogSize, (Program program, std::size_t* num_bytes))                 \
  X(GetLog,          nvrtcGetProgramLog,     (Program program, char* log))                              \
  X(Destroy,         nvrtcDestroyProgram,    (Program * program))
// clang-format on

struct Driver {
#define VN_POINTER(name, symbol, arguments) int(*name) arguments = nullptr;
  VN_FOR_EACH_DRIVER_CALL(VN_POINTER)
#undef VN_POINTER

  // Ready to use; stays until the process ends.
  static Result<const Driver*> Load();
  Error Failure(std::string_view call, int error) const;
};

// The kernel, compiled for devices of this compute capability (90: 9.0); compiled once in a process.
// `compiler_path` is tried before the compiler's usual names; may be empty.
Result<const std::string*> CompiledKernel(int capability, const std::string& compiler_path,
                                          bool with_sketches = false);

}  // namespace vernier::cuda
