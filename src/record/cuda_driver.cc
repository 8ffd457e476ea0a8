#include "record/cuda_driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "record/cuda_shared.h"

namespace vernier::cuda {
namespace {

constexpr std::size_t kMaxLogBytes = 400;  // of a compiler's complaints in a message

struct Compiler {
#define VN_POINTER(name, symbol, arguments) int(*name) arguments = nullptr;
  VN_FOR_EACH_COMPILER_CALL(VN_POINTER)
#undef VN_POINTER
};

Error Unsupported(std::string where, std::string detail) {
  return Error{ErrorCode::kUnsupported, std::move(where), std::move(detail)};
}

template <class Call>
Result<Done> Find(void* library, const char* library_name, const char* symbol, Call& call) {
  call = reinterpret_cast<Call>(dlsym(library, symbol));
  if (call == nullptr) return Unsupported(library_name, std::string("has no ") + symbol);
  return Done{};
}

Result<Driver> FindDriver() {
  constexpr const char* kName = "libcuda.so.1";
  void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Unsupported(kName, "no NVIDIA driver on this machine");
  Driver driver;
#define VN_FIND(name, symbol, arguments) VN_RETURN_IF_ERROR(Find(library, kName, #symbol, driver.name));
  VN_FOR_EACH_DRIVER_CALL(VN_FIND)
#undef VN_FIND
  if (const int error = driver.Init(0); error != kSuccess) return driver.Failure("cuInit", error);
  return driver;
}

Result<Compiler> FindCompiler(const std::string& path) {
  std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"};
  if (!path.empty()) names.insert(names.begin(), path);
  void* library = nullptr;
  for (const std::string& name : names) {
    if (library == nullptr) library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return Unsupported(names.front(), "CUDA's run-time compiler cannot be loaded");
  Compiler compiler;
#define VN_FIND(name, symbol, arguments) \
  VN_RETURN_IF_ERROR(Find(library, names.front().c_str(), #symbol, compiler.name));
  VN_FOR_EACH_COMPILER_CALL(VN_FIND)
#undef VN_FIND
  return compiler;
}

std::string LogOf(const Compiler& compiler, Program program) {
  std::size_t num_bytes = 0;
  if (compiler.GetLogBytes(program, &num_bytes) != kSuccess || num_bytes == 0) return "";
  std::string log(num_bytes, '\0');
  if (compiler.GetLog(program, log.data()) != kSuccess) return "";
  log.resize(std::min(log.find('\0'), kMaxLogBytes));
  return log;
}

Result<std::string> Compile(const Compiler& compiler, const std::string& target, bool with_sketches) {
  const bool is_code = target.starts_with("sm_");
  Program program = nullptr;
  if (compiler.Create(&program, KernelSource(with_sketches), "vernier.cu", 0, nullptr, nullptr) != kSuccess) {
    return Unsupported("CUDA's run-time compiler", "cannot be started");
  }
  const std::string architecture = "--gpu-architecture=" + target;
  const char* const options[] = {architecture.c_str(), "--std=c++14"};
  std::string code;
  int error = compiler.Compile(program, 2, options);
  std::size_t num_bytes = 0;
  if (error == kSuccess) {
    error = is_code ? compiler.GetCodeBytes(program, &num_bytes) : compiler.GetPtxBytes(program, &num_bytes);
  }
  if (error == kSuccess) {
    code.resize(num_bytes);
    error = is_code ? compiler.GetCode(program, code.data()) : compiler.GetPtx(program, code.data());
  }
  const std::string log = error == kSuccess ? "" : LogOf(compiler, program);
  compiler.Destroy(&program);
  if (error == kSuccess) return code;
  return Unsupported("CUDA's run-time compiler",
                     "error " + std::to_string(error) + " for " + target + ": " + log);
}

Result<std::string> CompileFor(int capability, const std::string& compiler_path, bool with_sketches) {
  VN_ASSIGN_OR_RETURN(const Compiler compiler, FindCompiler(compiler_path));
  Result<std::string> code = Compile(compiler, "sm_" + std::to_string(capability), with_sketches);
  // A compiler older than the device: the driver makes code from PTX.
  if (!code && capability > 80) {
    if (Result<std::string> ptx = Compile(compiler, "compute_80", with_sketches); ptx) return ptx;
  }
  return code;
}

}  // namespace

Result<const Driver*> Driver::Load() {
  static const Result<Driver> driver = FindDriver();
  if (!driver) return driver.error();
  return &*driver;
}

Error Driver::Failure(std::string_view call, int error) const {
  const char* text = nullptr;
  if (GetErrorString(error, &text) != kSuccess || text == nullptr) text = "unknown";
  return Unsupported(std::string(call), "CUDA error " + std::to_string(error) + ", " + text);
}

Result<const std::string*> CompiledKernel(int capability, const std::string& compiler_path,
                                          bool with_sketches) {
  static std::mutex mutex;
  static std::map<std::pair<int, bool>, std::string> compiled;
  const std::scoped_lock lock(mutex);
  const std::pair key(capability, with_sketches);
  const auto known = compiled.find(key);
  if (known != compiled.end()) return &known->second;
  VN_ASSIGN_OR_RETURN(std::string code, CompileFor(capability, compiler_path, with_sketches));
  return &compiled.emplace(key, std::move(code)).first->second;
}

}  // namespace vernier::cuda
